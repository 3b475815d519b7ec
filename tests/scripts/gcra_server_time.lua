-- GCRA by the server's clock, over so long a period that only the form of the times can differ.
-- keys: gcra:<key g>
-- args: <int 1 5> <int 0 2>
-- beside: EXISTS gcra:<key g>
-- beside: DEL gcra:<key g>
-- compare: near 60
redis.replicate_commands()
local burst = ARGV[1]
local cost = tonumber(ARGV[2])
local period = 90000000
local emission_interval = period / burst
local jan_1_2017 = 1483228800
local now = redis.call("TIME")
now = (now[1] - jan_1_2017) + (now[2] / 1000000)
local tat = redis.call("GET", KEYS[1])
tat = math.max(tat and tonumber(tat) or now, now)
local new_tat = tat + emission_interval * cost
local diff = now - (new_tat - period)
if diff < -1 then
  return { 0, math.floor(diff / 1000) }
end
redis.call("SET", KEYS[1], new_tat, "EX", math.ceil(new_tat - now) + 2000)
return { 1, math.floor(diff / 1000), #tostring(now) > 9 }
