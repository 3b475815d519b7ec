-- Reads a hash by the positions of HGETALL and counts with table.maxn, as a gateway's middleware does.
-- keys: <key mw>
-- args: <of 0.000001|0.00001> <int 1 10> <int 3600 7200> <now us> <of 1|2>
-- beside: HGETALL <key mw>
-- compare: digits near 4
local key = KEYS[1]
local limit, burst, ttl, t, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local bucket = { limit = limit, burst = burst, tokens = 0, last = 0 }
local record = redis.call('hgetall', key)
if table.maxn(record) == 4 then
  bucket.last = tonumber(record[2])
  bucket.tokens = tonumber(record[4])
end
local last = bucket.last
if t < last then
  last = t
end
local elapsed = t - last
local delta = bucket.limit * elapsed
local tokens = math.min(bucket.burst, bucket.tokens + delta)
tokens = tokens - n
local wait = 0
if tokens < 0 then
  wait = -tokens / bucket.limit
end
local ok = n <= bucket.burst and wait <= 1e6
if ok then
  redis.call('hset', key, 'last', t, 'tokens', tokens)
  redis.call('expire', key, ttl)
end
return { tostring(ok), tostring(wait), tostring(tokens) }
