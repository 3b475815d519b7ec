-- Ends at a time of the clock, and says when: EXPIREAT, PEXPIRETIME.
-- keys: <key at> <key set>
-- args: <int 1 9> <now s> <int 60 86400>
-- beside: EXPIRETIME <key at>
-- beside: SMEMBERS <key set>
-- compare: unordered
local at = math.floor(ARGV[2] / ARGV[3]) * ARGV[3] + ARGV[3]
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
if count == tonumber(ARGV[1]) then
  redis.call('EXPIREAT', KEYS[1], at)
  redis.call('SADD', KEYS[2], KEYS[1])
end
return { count, redis.call('PEXPIRETIME', KEYS[1]), redis.call('SCARD', KEYS[2]) }
