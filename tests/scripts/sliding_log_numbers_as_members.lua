-- Numbers of 16 digits as members: what goes in has to come out, digit for digit.
-- keys: <key micro>
-- args: <now us> <int 1000000 90000000> <int 1 9>
-- beside: ZRANGE <key micro> 0 -1
-- beside: ZRANGE <key micro> -1 -1 WITHSCORES
-- compare: near 4000
local key = KEYS[1]
local now = tonumber(ARGV[1])
local duration = tonumber(ARGV[2])
local max = tonumber(ARGV[3])
local start = now - duration
redis.call("ZREMRANGEBYSCORE", key, 0, start)
local count = redis.call("ZCARD", key)
local oldest = redis.call("ZRANGE", key, 0, 0)
local from = oldest[1] or now
if count < max then
  redis.call("ZADD", key, now, now)
end
redis.call("ZREMRANGEBYRANK", key, 0, -(max + 1))
redis.call("PEXPIRE", key, 9000000)
return { max - count, max, math.floor((from + duration) / 1000000), redis.call('ZSCORE', key, now) }
