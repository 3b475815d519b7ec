-- The second key is none, but a member: what one gateway passes.
-- keys: <key conc> <id>
-- args: <int 1 5> <now s> <now ms>
-- beside: ZCARD <key conc>
-- beside: SET <id> x
-- beside: ZREM <key conc> <id>
local key, id = KEYS[1], KEYS[2]
local capacity = tonumber(ARGV[1])
local timestamp = tonumber(ARGV[2])
local count = redis.call('zcard', key)
local allowed = 0
if count < capacity then
  redis.call('zadd', key, timestamp, id)
  allowed = 1
  count = count + 1
end
return { allowed, count / 2, redis.call('exists', id) }
