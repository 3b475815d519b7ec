-- A log of permits packed with struct, as a Java library has it.
-- keys: {<key permit>} {<key permit>}:value {<key permit>}:permits
-- args: <int 1 3> <now ms> <bytes>
-- beside: ZRANGE {<key permit>}:permits 0 -1 WITHSCORES
-- beside: HSET {<key permit>} rate <int 1 9> interval <int 1000 90000>
-- beside: GET {<key permit>}:value
-- compare: near 5000
local rate = redis.call('hget', KEYS[1], 'rate')
local interval = redis.call('hget', KEYS[1], 'interval')
if not rate then
  redis.call('hsetnx', KEYS[1], 'rate', 5)
  redis.call('hsetnx', KEYS[1], 'interval', 10000)
end
assert(rate ~= false and interval ~= false, 'RateLimiter is not initialized')
assert(tonumber(rate) >= tonumber(ARGV[1]), 'Requested permits amount could not exceed defined rate')
local value = redis.call('get', KEYS[2])
local result
if value ~= false then
  local expired = redis.call('zrangebyscore', KEYS[3], 0, tonumber(ARGV[2]) - interval)
  local released = 0
  for i, v in ipairs(expired) do
    local random, permits = struct.unpack('Bc0I', v)
    released = released + permits
  end
  if released > 0 then
    redis.call('zremrangebyscore', KEYS[3], 0, tonumber(ARGV[2]) - interval)
    value = math.min(value + released, rate)
    redis.call('set', KEYS[2], value)
  end
  if tonumber(value) < tonumber(ARGV[1]) then
    local first = redis.call('zrange', KEYS[3], 0, 0, 'withscores')
    result = 3 + interval - (tonumber(ARGV[2]) - (first[2] or 0))
  else
    redis.call('zadd', KEYS[3], ARGV[2], struct.pack('Bc0I', string.len(ARGV[3]), ARGV[3], ARGV[1]))
    redis.call('decrby', KEYS[2], ARGV[1])
    result = nil
  end
else
  redis.call('set', KEYS[2], rate)
  redis.call('zadd', KEYS[3], ARGV[2], struct.pack('Bc0I', string.len(ARGV[3]), ARGV[3], ARGV[1]))
  redis.call('decrby', KEYS[2], ARGV[1])
  result = nil
end
local ttl = redis.call('pttl', KEYS[1])
if ttl > 0 then
  redis.call('pexpire', KEYS[2], ttl)
end
return result
