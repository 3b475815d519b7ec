-- The token bucket that tutorials show: two fields of a hash, the time from the client.
-- keys: <key bucket>
-- args: <int 1 20> <of 0.5|1|2|0.1|10> <now s> <int 1 4>
-- beside: HGETALL <key bucket>
-- beside: HSET <key bucket> tokens <int 0 20>
-- beside: TTL <key bucket>
-- compare: digits near 3000
local key = KEYS[1]
local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local now = tonumber(ARGV[3])
local requested = tonumber(ARGV[4])

local bucket = redis.call('HMGET', key, 'tokens', 'last_refill')
local tokens = tonumber(bucket[1])
local last_refill = tonumber(bucket[2])
if tokens == nil then
  tokens = capacity
  last_refill = now
end

local elapsed = math.max(0, now - last_refill)
tokens = math.min(capacity, tokens + elapsed * rate)
local allowed = 0
if tokens >= requested then
  tokens = tokens - requested
  allowed = 1
end

redis.call('HMSET', key, 'tokens', tokens, 'last_refill', now)
redis.call('EXPIRE', key, 3600)
return { allowed, tokens }
