-- A counter and a key that blocks, with one hash tag; the array is all integers.
-- keys: {<key thr>:default}:hits {<key thr>:default}:blocked
-- args: <int 2000000 9000000> <int 1 4> <int 2000000 9000000>
-- beside: DEL {<key thr>:default}:blocked
-- beside: PTTL {<key thr>:default}:hits
-- compare: near 5000
local hits_key, block_key = KEYS[1], KEYS[2]
local ttl, limit, block = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local hits = redis.call('INCR', hits_key)
local expires = redis.call('PTTL', hits_key)
if expires <= 0 then
  redis.call('PEXPIRE', hits_key, ttl)
  expires = ttl
end
local is_blocked = redis.call('GET', block_key)
local blocked_for = 0
if is_blocked then
  blocked_for = redis.call('PTTL', block_key)
elseif hits > limit then
  redis.call('SET', block_key, 1, 'PX', block)
  is_blocked = '1'
  blocked_for = block
end
if is_blocked and blocked_for <= 0 then
  redis.call('DEL', block_key)
  redis.call('SET', hits_key, 1, 'PX', ttl)
  hits, expires, is_blocked = 1, ttl, false
end
return { hits, math.ceil(expires / 1000), is_blocked and 1 or 0, math.ceil(blocked_for / 1000) }
