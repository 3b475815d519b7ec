-- Replies of commands as RESP3 has them, and what a script makes of them, for clients of either protocol.
-- keys: <key r3>
-- args: <of 2|3> <id> <float -9 9>
-- beside: DEL <key r3>
-- compare: digits unordered
redis.setresp(tonumber(ARGV[1]))
redis.call('DEL', KEYS[1] .. 'h', KEYS[1] .. 's', KEYS[1] .. 'z')
redis.call('HSET', KEYS[1] .. 'h', 'a', ARGV[2], 'b', '2')
redis.call('SADD', KEYS[1] .. 's', ARGV[2])
redis.call('ZADD', KEYS[1] .. 'z', ARGV[3], ARGV[2])
local hash = redis.call('HGETALL', KEYS[1] .. 'h')
local set = redis.call('SMEMBERS', KEYS[1] .. 's')
local score = redis.call('ZSCORE', KEYS[1] .. 'z', ARGV[2])
local none = redis.call('GET', KEYS[1] .. 'none')
return {
  hash, set, score, tostring(none), type(score), redis.call('HGET', KEYS[1] .. 'h', 'none') or 'nothing',
  redis.call('ZRANGE', KEYS[1] .. 'z', 0, -1, 'WITHSCORES'), { double = 1.5 }, { map = { x = 1 } }, { set = { y = true } },
  { big_number = '12345678901234567890' }, { verbatim_string = { format = 'txt', string = 'text' } }, true, false,
}
