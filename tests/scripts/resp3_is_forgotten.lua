-- What redis.setresp says holds for one run.
-- keys: <key rf>
-- args: <of 2|3|4|x|>
-- beside: HSET <key rf> a 1
local reply = redis.call('HGETALL', KEYS[1])
local kind = reply.map and 'map' or 'array'
local ok, problem = pcall(redis.setresp, tonumber(ARGV[1]))
return { kind, ok, problem, redis.call('GET', 'none at all') == nil, redis.pcall('HGET', KEYS[1], 'nothing') == nil, reply }
