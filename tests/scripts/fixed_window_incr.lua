-- The fixed window: INCR, and EXPIRE at the first.
-- keys: <key fw>
-- args: <int 1 8> <int 2000 9000>
-- beside: GET <key fw>
-- beside: INCR <key fw>
-- beside: TTL <key fw>
-- compare: near 4
local current = redis.call('INCR', KEYS[1])
if current == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
if current > tonumber(ARGV[1]) then
  return { 0, current - tonumber(ARGV[1]), redis.call('TTL', KEYS[1]) }
end
return { 1, tonumber(ARGV[1]) - current, redis.call('TTL', KEYS[1]) }
