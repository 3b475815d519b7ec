-- The same by SCAN, to its end.
-- keys:
-- args: s<int 0 2>:* <int 1 100>
-- beside: SET s<int 0 2>:<int 0 9> x
-- beside: ZADD s<int 0 2>:z 1 a
local cursor = '0'
local seen, count = {}, 0
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', ARGV[2])
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    if not seen[key] then
      seen[key] = true
      count = count + 1
    end
  end
until cursor == '0'
if count > 12 then
  for key in pairs(seen) do
    redis.call('UNLINK', key)
  end
end
return count
