-- The window moves on by RENAME, with the time that is left.
-- keys: {<key mv>}/now {<key mv>}/before
-- args: <int 1 9> <int 3000000 9000000> <of 0|1>
-- beside: GET {<key mv>}/before
-- beside: EXISTS {<key mv>}/now {<key mv>}/before
-- compare: near 5000
local function move()
  if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('RENAME', KEYS[1], KEYS[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
  end
end
if ARGV[3] == '1' then
  move()
end
local now = redis.call('INCRBY', KEYS[1], 1)
if now == 1 then
  redis.call('SET', KEYS[1], now, 'PX', ARGV[2] * 2)
end
local before = redis.call('GET', KEYS[2])
return { now, redis.call('PTTL', KEYS[1]), before or '0', redis.call('PTTL', KEYS[2]), now + (before or 0) <= tonumber(ARGV[1]) }
