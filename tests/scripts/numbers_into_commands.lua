-- Numbers as arguments of commands: seventeen digits, exponents, and what is a whole number.
-- keys: <key num>
-- args: <big> <float -100 100> <int 1 30>
-- beside: GET <key num>
-- beside: HGETALL <key num>h
local big, part, power = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('SET', KEYS[1], big)
local stored = redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1] .. 'h')
redis.call('HSET', KEYS[1] .. 'h', 'part', part, 'third', 1 / 3, 'power', 10 ^ power, 'small', 10 ^ -power, 'negative', -part, 'sum', big + part, 1, 2, 1.5, 2.5)
return { stored, redis.call('HGETALL', KEYS[1] .. 'h'), redis.call('ECHO', 2 ^ power), redis.call('ECHO', part * 10 ^ power) }
