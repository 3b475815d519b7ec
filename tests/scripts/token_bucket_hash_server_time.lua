-- The same bucket by the server's clock, with a refill so slow that the time between two servers does not show.
-- keys: <key bucket>
-- args: <int 1 20> <int 1 4>
-- beside: HGET <key bucket> tokens
-- beside: HSET <key bucket> tokens <int 0 20>
-- compare: near 4000000
redis.replicate_commands()
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local capacity = tonumber(ARGV[1])
local data = redis.call('HMGET', KEYS[1], 'tokens', 'last_refill')
local tokens = tonumber(data[1]) or capacity
local last = tonumber(data[2]) or now
local rate = capacity / 1e9
tokens = math.min(capacity, tokens + math.floor((now - last) * rate))
local allowed = tokens >= tonumber(ARGV[2])
if allowed then
  tokens = tokens - ARGV[2]
end
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'last_refill', math.floor(now))
redis.call('EXPIRE', KEYS[1], 3600)
return { allowed and 1 or 0, tokens, math.floor(now) }
