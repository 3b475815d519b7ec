-- The result is a float, which a reply cuts off.
-- keys: <key lk>
-- args: <of 1|2.5|0.3|7.999999|-1.5> <of 1|3|7>
-- beside: GET <key lk>
-- beside: INCRBYFLOAT <key lk> 0.25
-- compare: digits
local level = redis.call('INCRBYFLOAT', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], 8000000)
local left = 10 - level
if left < 0 then
  redis.call('DEL', KEYS[1])
  return left / ARGV[2]
end
return { left / ARGV[2], -left / ARGV[2], level, tostring(left / ARGV[2]) }
