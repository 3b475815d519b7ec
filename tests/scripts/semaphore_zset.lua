-- A semaphore: who holds it is in a sorted set, with the time of the lease.
-- keys: <key sem>
-- args: acquire <id> <int 1 5> <now ms> <int 1000 900000>
-- keys: <key sem>
-- args: release <id> <int 1 5> <now ms> 0
-- keys: <key sem>
-- args: count <id> <int 1 5> <now ms> 0
-- beside: ZRANGE <key sem> 0 -1
-- beside: ZREM <key sem> <id>
local actions = {}
function actions.acquire(key, id, limit, now, lease)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. now)
  if redis.call('ZSCORE', key, id) or redis.call('ZCARD', key) < limit then
    redis.call('ZADD', key, now + lease, id)
    redis.call('EXPIRE', key, 6000)
    return { 1, redis.call('ZCARD', key) }
  end
  return { 0, redis.call('ZCARD', key) }
end
function actions.release(key, id)
  return redis.call('ZREM', key, id)
end
function actions.count(key, _, _, now)
  return redis.call('ZCOUNT', key, now, '+inf')
end
return actions[ARGV[1]](KEYS[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))
