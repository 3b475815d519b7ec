-- Asks for the time left first, and begins a window where there is none; a key that does not exist is an element false.
-- keys: <key w>
-- args: <of 0|1> <int 2000000 9000000>
-- beside: GET <key w>
-- beside: SET <key w> <int 0 5>
-- compare: near 4000
local reset = ARGV[1] == '1'
local window = tonumber(ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if reset or left <= 0 then
  redis.call('SET', KEYS[1], 1, 'PX', window)
  return { 1, window, redis.call('GET', KEYS[1] .. ':none') }
end
return { redis.call('INCR', KEYS[1]), left }
