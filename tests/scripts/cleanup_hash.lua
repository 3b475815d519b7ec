-- A hash of counters by day that a call cleans up; string.match and os.time are not needed.
-- keys: <key days>
-- args: 2026-<int 10 12>-<int 10 28> <int 1 5>
-- beside: HGETALL <key days>
-- beside: HDEL <key days> 2026-10-11
local count = redis.call('HINCRBYFLOAT', KEYS[1], ARGV[1], ARGV[2] / 4)
local year, month = ARGV[1]:match('^(%d+)-(%d+)')
local kept = 0
for _, day in ipairs(redis.call('HKEYS', KEYS[1])) do
  local other = day:match('^%d+-(%d+)')
  if other and tonumber(other) < tonumber(month) - 1 then
    redis.call('HDEL', KEYS[1], day)
  else
    kept = kept + 1
  end
end
return { count, kept, redis.call('HLEN', KEYS[1]), redis.call('HSTRLEN', KEYS[1], ARGV[1]), year .. month }
