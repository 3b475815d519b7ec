-- Text where numbers are meant: math.max, comparisons and arithmetic on arguments.
-- keys: <key tat>
-- args: <now ms> <int 1 9> <int 100 900> <int 0 3>
-- beside: GET <key tat>
-- compare: digits near 4000
local now, burst, interval, cost = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local tat = redis.call('GET', KEYS[1])
if not tat then
  tat = now
end
tat = math.max(tat, now)
local new = tat + interval * cost
local allow_at = new - interval * burst
local denied = tonumber(now) < allow_at
if not denied and cost + 0 > 0 then
  redis.call('SET', KEYS[1], new, 'PX', math.ceil(new - now + 5000000))
end
return { denied and 1 or 0, math.floor((now - allow_at) / interval), tostring(new - now), new, '7' < '70', 'a' .. 1 .. 2 }
