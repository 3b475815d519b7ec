-- The log as a list: LINDEX, LPUSH, LTRIM; the answer is a boolean.
-- keys: <key list>
-- args: <now ms> <int 1 8> <int 1000 60000> <int 1 3>
-- beside: LRANGE <key list> 0 -1
-- beside: LLEN <key list>
local timestamp, limit, expiry, amount = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if amount > limit then
  return false
end
local entry = redis.call('lindex', KEYS[1], limit - amount)
if entry and tonumber(entry) >= timestamp - expiry then
  return false
end
local entries = {}
for i = 1, amount do
  entries[i] = ARGV[1]
end
for i = 1, #entries, 5000 do
  redis.call('lpush', KEYS[1], unpack(entries, i, math.min(i + 4999, #entries)))
end
redis.call('ltrim', KEYS[1], 0, limit - 1)
redis.call('expire', KEYS[1], 4000)
return true
