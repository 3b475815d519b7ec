-- Ranges put together as text: '(' .. number, -inf, exponents.
-- keys: <key range>
-- args: <int 0 60> <id> <of (|> <of -inf|0|1e1|-1e300>
-- beside: ZADD <key range> <int 0 60> <id>
-- beside: ZINCRBY <key range> 0.5 <id>
local low = ARGV[4]
local high = ARGV[3] .. (ARGV[1] + 0.5)
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
local seen = redis.call('ZRANGEBYSCORE', KEYS[1], low, high, 'WITHSCORES', 'LIMIT', 0, 5)
local gone = redis.call('ZREMRANGEBYSCORE', KEYS[1], low, '(' .. (ARGV[1] / 3))
return { seen, gone, redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('ZREVRANGE', KEYS[1], 0, 1, 'WITHSCORES') }
