-- A pattern, an empty text, blanks and bytes as keys.
-- keys: <of LIMITER/*|*|[a]| |a b|{}|{}x|{a|}{> <of |k>
-- args: <int 1 5>
-- keys: <bytes> <bytes>
-- args: <int 1 5>
-- beside: EXISTS *
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('HINCRBY', KEYS[2] .. ':hash', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], 9000)
return { redis.call('GET', KEYS[1]), redis.call('HGETALL', KEYS[2] .. ':hash'), redis.call('TYPE', KEYS[1]), redis.call('TYPE', KEYS[1]).ok }
