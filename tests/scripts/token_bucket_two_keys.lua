-- Tokens and time in two keys with one hash tag, as gateways do that took over one well-known script.
-- keys: {<key tb>}.tokens {<key tb>}.timestamp
-- args: <of 1|5|0.25|10> <int 1 30> <of |2000000500> <int 0 3>
-- beside: GET {<key tb>}.tokens
-- beside: SETEX {<key tb>}.timestamp 8000000 <now s>
-- compare: digits near 4
local tokens_key = KEYS[1]
local timestamp_key = KEYS[2]
local rate = tonumber(ARGV[1])
local capacity = tonumber(ARGV[2])
local now = tonumber(ARGV[3])
local requested = tonumber(ARGV[4])
if now == nil then
  now = 2000000000
end
local fill_time = capacity / rate
local ttl = math.floor(fill_time * 2) + 5000

local last_tokens = tonumber(redis.call("get", tokens_key))
if last_tokens == nil then
  last_tokens = capacity
end
local last_refreshed = tonumber(redis.call("get", timestamp_key))
if last_refreshed == nil then
  last_refreshed = 0
end
local delta = math.max(0, now - last_refreshed)
local filled = math.min(capacity, last_tokens + (delta * rate))
local allowed = filled >= requested
local new_tokens = filled
local allowed_num = 0
if allowed then
  new_tokens = filled - requested
  allowed_num = 1
end
if ttl > 0 then
  redis.call("setex", tokens_key, ttl, new_tokens)
  redis.call("setex", timestamp_key, ttl, now)
end
return { allowed_num, new_tokens }
