-- Two windows, the one before weighted by what is left of it.
-- keys: {<key sw>}:now {<key sw>}:before
-- args: <int 1 20> <of 0|1000|30000|59999> <int 1 3>
-- beside: MGET {<key sw>}:now {<key sw>}:before
-- beside: SET {<key sw>}:before <int 0 30> EX 7000
-- compare: near 4
local limit = tonumber(ARGV[1])
local into_window = tonumber(ARGV[2])
local window = 60000
local cost = tonumber(ARGV[3])
local current = tonumber(redis.call("GET", KEYS[1]) or "0")
local before = tonumber(redis.call("GET", KEYS[2]) or "0")
local part = (into_window % window) / window
before = math.floor((1 - part) * before)
if before + current >= limit then
  return -1
end
local value = redis.call("INCRBY", KEYS[1], cost)
if value == cost then
  redis.call("PEXPIRE", KEYS[1], window * 60 + 1000)
end
return limit - (value + before)
