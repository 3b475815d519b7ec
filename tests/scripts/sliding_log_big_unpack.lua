-- As many unpacked arguments as a library sends at most.
-- keys: <key many>
-- args: <of 10|500|5000|7000> <of LPUSH|RPUSH|SADD|DEL>
-- beside: DEL <key many>
-- compare: unordered
local values = {}
for i = 1, math.min(7000, ARGV[1]) do
  values[i] = ARGV[2] == 'DEL' and 'none:' .. i or i % 700
end
if ARGV[2] == 'DEL' then
  return { redis.call('DEL', unpack(values)), select('#', unpack(values)) }
end
redis.call('DEL', KEYS[1])
return redis.call(ARGV[2], KEYS[1], unpack(values))
