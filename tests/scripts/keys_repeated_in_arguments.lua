-- Reads its keys through arguments that repeat them; results are booleans.
-- keys: rl:{<key cs>}:q rl:{<key cs>}:z
-- args: rl:{<key cs>}:q rl:{<key cs>}:z <id> <now ms> <int 1 6>
-- beside: ZRANGE rl:{<key cs>}:z 0 -1 WITHSCORES
-- compare: near 5000
local limit = tonumber(ARGV[5])
local count = redis.call('zcard', ARGV[2])
local lease = false
if count < limit then
  redis.call('zadd', ARGV[2], ARGV[4] + 1, ARGV[3])
  redis.call('hincrby', ARGV[1], 'total', 1)
  redis.call('pexpireat', ARGV[1], 2500000000000)
  lease = true
else
  redis.call('hincrby', ARGV[1], 'failed', 1)
end
return { lease, count, redis.call('hget', ARGV[1], 'total'), redis.call('hget', ARGV[1], 'failed') }
