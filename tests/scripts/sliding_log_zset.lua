-- The sliding log: ZREMRANGEBYSCORE, ZCARD, ZADD.
-- keys: <key log>
-- args: <now ms> <int 1000 60000> <int 1 12> <id>-<now us>
-- beside: ZRANGE <key log> 0 -1 WITHSCORES
-- beside: ZCARD <key log>
-- beside: ZADD <key log> <now ms> <id>
-- compare: near 4
local key = KEYS[1]
local now = tonumber(ARGV[1])
local window = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', key, 0, now - window)
local count = redis.call('ZCARD', key)
if count < limit then
  redis.call('ZADD', key, now, ARGV[4])
  redis.call('EXPIRE', key, 4000)
  return { 1, limit - count - 1, 0 }
end
local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
return { 0, 0, oldest[2] and (oldest[2] + window - now) or -1 }
