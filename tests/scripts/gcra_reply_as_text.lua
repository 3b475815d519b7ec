-- GCRA as one library of Go has it: numbers come back as text, the arrival time with EX.
-- keys: rate:<key g>
-- args: <int 1 10> <int 1 10> <int 1000 4000> <int 0 3> <now s>
-- beside: GET rate:<key g>
-- compare: digits near 5
local rate_limit_key = KEYS[1]
local burst = ARGV[1]
local rate = ARGV[2]
local period = ARGV[3]
local cost = tonumber(ARGV[4])
local emission_interval = period / rate
local increment = emission_interval * cost
local burst_offset = emission_interval * burst
local epoch = 1483228800
local now = (ARGV[5] - epoch) + (250000 / 1000000)

local tat = redis.call("GET", rate_limit_key)
if not tat then
  tat = now
else
  tat = tonumber(tat)
end
tat = math.max(tat, now)
local new_tat = tat + increment
local allow_at = new_tat - burst_offset
local diff = now - allow_at
local remaining = diff / emission_interval
if remaining < 0 then
  local reset_after = tat - now
  local retry_after = diff * -1
  return { 0, 0, tostring(retry_after), tostring(reset_after) }
end
local reset_after = new_tat - now
if reset_after > 0 then
  redis.call("SET", rate_limit_key, new_tat, "EX", math.ceil(reset_after) + 1000)
end
return { cost, remaining, tostring(-1), tostring(reset_after) }
