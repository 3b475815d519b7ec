-- Deletes what a pattern finds, five at a time; the pattern is given as a key.
-- keys: p<int 0 2>:*
-- args: <int 1 9>
-- beside: SET p<int 0 2>:<int 0 9> x
-- beside: HSET p<int 0 2>:h<int 0 2> a 1
-- beside: SET other:<int 0 2> x
local keys = redis.call('keys', KEYS[1])
local deleted = 0
if #keys >= tonumber(ARGV[1]) then
  for i = 1, #keys, 5 do
    deleted = deleted + redis.call('del', unpack(keys, i, math.min(i + 4, #keys)))
  end
end
return { deleted, #keys, redis.call('DBSIZE') }
