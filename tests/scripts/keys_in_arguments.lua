-- Declares no key: all of them are arguments.
-- keys:
-- args: <key arg> other<int 0 2> <int 1 9>
-- beside: GET <key arg>
local function take(key, count)
  local before = redis.call('GET', key)
  redis.call('SET', key, (before or 0) + count, 'EX', 6000)
  return before
end
return { take(ARGV[1], ARGV[3]), take(ARGV[2], 2), redis.call('MGET', ARGV[1], ARGV[2], 'nothing'), #KEYS }
