-- Adds as many members as it has weight, with one ZADD of unpacked arguments.
-- keys: <key weight>
-- args: <now ms> <id> <int 0 40> <int 10 60> <int 1000 30000>
-- beside: ZCOUNT <key weight> -inf +inf
local now = tonumber(ARGV[1])
local weight = tonumber(ARGV[3])
local count = redis.call('ZCOUNT', KEYS[1], now - ARGV[5], now)
if weight > ARGV[4] - count then
  return { 0, ARGV[4] - count }
end
local members = {}
for i = 1, weight do
  members[#members + 1] = now
  members[#members + 1] = ARGV[2] .. ':' .. i
end
if weight > 0 then
  redis.call('ZADD', KEYS[1], unpack(members))
end
return { -1, ARGV[4] - count - weight }
