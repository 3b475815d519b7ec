-- A queue that drips, as a list.
-- keys: <key drip>
-- args: <int 1 6> <id> <int 0 3>
-- beside: LRANGE <key drip> 0 -1
-- beside: RPOPLPUSH <key drip> <key drip>
for _ = 1, math.min(3, ARGV[3]) do
  redis.call('RPOP', KEYS[1])
end
local length = redis.call('LLEN', KEYS[1])
if length >= tonumber(ARGV[1]) then
  return { 'full', length, redis.call('LINDEX', KEYS[1], 0), redis.call('LPOS', KEYS[1], ARGV[2]) }
end
return { 'ok', redis.call('LPUSH', KEYS[1], ARGV[2]), redis.call('LRANGE', KEYS[1], 0, -1), redis.call('LREM', KEYS[1], 2, 'nobody') }
