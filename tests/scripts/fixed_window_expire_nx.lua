-- EXPIRE with NX, XX, GT and LT.
-- keys: <key nx>
-- args: <int 1 3> <int 2000 9000> <of NX|XX|GT|LT|nx|zz>
-- beside: TTL <key nx>
-- beside: PERSIST <key nx>
-- compare: near 4
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
local set = redis.call('EXPIRE', KEYS[1], ARGV[2], ARGV[3])
return { count, set, redis.call('TTL', KEYS[1]) }
