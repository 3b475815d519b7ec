-- Budgets in floating point, a batch of them.
-- keys: {<key bud>}:spend {<key bud>}:requests {<key bud>}:tokens
-- args: <float 0 3> <int 1 3> <int 1 5000> <of 5|20.5|100> <int 3000 9000>
-- beside: INCRBYFLOAT {<key bud>}:spend 0.1
-- beside: MGET {<key bud>}:spend {<key bud>}:requests
-- compare: near 4
local results = {}
for i, key in ipairs(KEYS) do
  local command = i == 1 and 'INCRBYFLOAT' or 'INCRBY'
  local value = redis.call(command, key, ARGV[i])
  if redis.call('TTL', key) < 0 then
    redis.call('EXPIRE', key, ARGV[5])
  end
  table.insert(results, value)
  table.insert(results, redis.call('TTL', key))
end
if tonumber(results[1]) > tonumber(ARGV[4]) then
  redis.call('DEL', unpack(KEYS))
  table.insert(results, tostring(true))
end
return results
