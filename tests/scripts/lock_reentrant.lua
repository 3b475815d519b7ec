-- A lock that its holder may take again: a hash of holders and counts.
-- keys: <key re>
-- args: <of lock|unlock> <id> <int 3000000 9000000>
-- beside: HGETALL <key re>
-- compare: near 5000
if ARGV[1] == 'lock' then
  if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[3])
    return nil
  end
  return redis.call('pttl', KEYS[1])
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return nil
end
local count = redis.call('hincrby', KEYS[1], ARGV[2], -1)
if count > 0 then
  redis.call('pexpire', KEYS[1], ARGV[3])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', 'unlocked:' .. KEYS[1], ARGV[2])
return 1
