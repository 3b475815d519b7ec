-- Several windows at once, none of them with a hash tag; one that is full stops the others from counting.
-- keys: s:<key a> m:<key b> h:<key c>
-- args: <int 1 20> <int 5 40> <int 10 60>
-- beside: MGET s:<key a> m:<key b> h:<key c>
local seconds = { 2000, 3000, 4000 }
local counts = redis.call('MGET', unpack(KEYS))
for i, key in ipairs(KEYS) do
  local count = counts[i] and tonumber(counts[i]) or 0
  if count >= tonumber(ARGV[i]) then
    return { 0, i, counts }
  end
end
local left = {}
for i, key in ipairs(KEYS) do
  local count = redis.call('INCR', key)
  if count == 1 then
    redis.call('EXPIRE', key, seconds[i])
  end
  table.insert(left, ARGV[i] - count)
end
return { 1, 0, left }
