-- Makes its keys from one that is declared.
-- keys: <key base>
-- args: <int 1 5> <id>
-- beside: MGET <key base>:1 <key base>:2 <key base>:3
-- beside: DEL <key base>:<int 1 5>
local sum = 0
for i = 1, math.min(5, ARGV[1]) do
  sum = sum + redis.call('INCRBY', KEYS[1] .. ':' .. i, i)
end
redis.call('HSET', KEYS[1] .. ':' .. ARGV[2], 'sum', sum, 'by', ARGV[2])
return { sum, redis.call('HGETALL', KEYS[1] .. ':' .. ARGV[2]), redis.call('EXISTS', KEYS[1] .. ':1', KEYS[1] .. ':5', KEYS[1]) }
