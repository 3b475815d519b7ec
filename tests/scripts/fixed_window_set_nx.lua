-- SET NX EX, INCRBY by the points, PTTL: what the most used library of Node does.
-- keys: rlflx:<key nx>
-- args: <int 0 5> <int 2000 9000>
-- beside: GET rlflx:<key nx>
-- beside: PTTL rlflx:<key nx>
-- compare: near 4000
redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')
local consumed = redis.call('incrby', KEYS[1], ARGV[1])
local ttl = redis.call('pttl', KEYS[1])
if ttl == -1 then
  redis.call('expire', KEYS[1], ARGV[2])
  ttl = 1000 * ARGV[2]
end
return { consumed, ttl }
