-- Small windows as fields of a hash; field names are numbers that became text.
-- keys: <key sub>
-- args: <now s> <int 1 20> <int 1 4> <int 60 3600>
-- beside: HKEYS <key sub>
-- beside: HINCRBY <key sub> <int 33333330 33333340> 1
-- compare: unordered
local now, limit, cost, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local step = span / 6
local block = math.floor(now / step)
local trim = block - 6
local total = 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if tonumber(field) <= trim then
    redis.call('HDEL', KEYS[1], field)
  else
    total = total + redis.call('HGET', KEYS[1], field)
  end
end
if total + cost > limit then
  return { 0, total }
end
local count = redis.call('HINCRBY', KEYS[1], block, cost)
redis.call('EXPIRE', KEYS[1], 5000)
return { 1, total + cost, count, tostring(block) }
