-- Exponential back-off by powers of two, up to 2^53.
-- keys: <key backoff>
-- args: <int 2000000 4000000> <int 1 5> <of true|false> <of true|false>
-- beside: GET <key backoff>
-- beside: SET <key backoff> <int 0 60>
-- compare: near 5000
local key = KEYS[1]
local window = tonumber(ARGV[1])
local max = tonumber(ARGV[2])
local continue = ARGV[3] == 'true'
local exponential = ARGV[4] == 'true'
local MAX_SAFE = (2 ^ 53) - 1

local current = redis.call('INCR', key)
if current == 1 or (continue and current > max) then
  redis.call('PEXPIRE', key, window)
elseif exponential and current > max then
  local exponent = current - max - 1
  local ttl = math.min(window * (2.0 ^ exponent), MAX_SAFE)
  redis.call('PEXPIRE', key, ttl)
  return { current, ttl }
else
  window = redis.call('PTTL', key)
end
return { current, window }
