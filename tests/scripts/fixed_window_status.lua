-- Gives back the status of SETEX, or nil where the key exists: `add` of a cache.
-- keys: <key cache>
-- args: <bytes> <int 2000 9000>
-- beside: GET <key cache>
return redis.call('exists', KEYS[1]) < 1 and redis.call('setex', KEYS[1], ARGV[2], ARGV[1])
