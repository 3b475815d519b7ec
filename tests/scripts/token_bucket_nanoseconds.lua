-- Nanoseconds of 19 digits as arguments, fields and replies: doubles that are beyond 2^53.
-- keys: <key nano>
-- args: <now us>000 <int 1 10> <int 1000000000 90000000000> <int 1 3>
-- beside: HGETALL <key nano>
-- compare: digits near 4
local key = KEYS[1]
local now = tonumber(ARGV[1])
local max = tonumber(ARGV[2])
local interval = tonumber(ARGV[3])
local take = tonumber(ARGV[4])

local function rows(flat)
  local result = {}
  for i = 1, #flat, 2 do
    result[flat[i]] = flat[i + 1]
  end
  return result
end

local data = rows(redis.call('HGETALL', key))
local start = tonumber(data.start) or now
local tokens = tonumber(data.tokens) or max
local ticks = math.floor((now - start) / interval)
if ticks > 0 then
  tokens = max
  start = start + ticks * interval
end
local ok = tokens >= take
if ok then
  tokens = tokens - take
end
redis.call('HSET', key, 'start', string.format('%.0f', start), 'tokens', tokens)
redis.call('EXPIRE', key, math.ceil(3 * interval / 1000000000) + 2000)
return { tokens, start + interval, ok }
