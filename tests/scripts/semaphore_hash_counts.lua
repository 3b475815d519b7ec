-- Counts of running jobs a user in a hash, with a total beside it.
-- keys: <key jobs> <key jobs>:total
-- args: <of start|stop> <id> <int 1 4> <int 3 12>
-- beside: HGETALL <key jobs>
-- beside: GET <key jobs>:total
local function count(value)
  return tonumber(value or 0)
end
local mine = count(redis.call('HGET', KEYS[1], ARGV[2]))
local all = count(redis.call('GET', KEYS[2]))
if ARGV[1] == 'start' then
  if mine >= count(ARGV[3]) or all >= count(ARGV[4]) then
    return redis.status_reply('BUSY')
  end
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('INCR', KEYS[2])
  return redis.status_reply('OK')
end
if mine > 0 then
  if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) == 0 then
    redis.call('HDEL', KEYS[1], ARGV[2])
  end
  redis.call('DECR', KEYS[2])
end
return { ok = 'DONE' }
