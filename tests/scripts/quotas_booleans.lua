-- Quotas in pairs: an array of booleans with false in the middle, and an assertion on the number of arguments.
-- keys: <key quota> <key quota>r <key other> <key other>r
-- args: <int 1 9> <int 0 4> <int 1 9> <int 0 4>
-- beside: INCRBY <key quota>r <int 1 3>
-- beside: MGET <key quota> <key quota>r
assert(#KEYS % 2 == 0, 'there must be an even number of keys')
assert(#KEYS == #ARGV, 'incorrect number of arguments')
local results, failed = {}, false
for i = 0, #KEYS / 2 - 1 do
  local limit = tonumber(ARGV[2 * i + 1])
  local quantity = tonumber(ARGV[2 * i + 2])
  local refunded = tonumber(redis.call('GET', KEYS[2 * i + 2]) or 0)
  local used = tonumber(redis.call('GET', KEYS[2 * i + 1]) or 0)
  local rejected = limit >= 0 and used - refunded + quantity > limit
  results[i + 1] = rejected
  failed = failed or rejected
end
if not failed then
  for i = 0, #KEYS / 2 - 1 do
    redis.call('INCRBY', KEYS[2 * i + 1], ARGV[2 * i + 2])
    redis.call('EXPIREAT', KEYS[2 * i + 1], 2500000000)
  end
end
return results
