-- Sets of members that are denied; SMISMEMBER gives an array of 0 and 1.
-- keys: <key deny> <key status>
-- args: <id> <id> <id>
-- beside: SADD <key deny> <id> <id>
-- beside: SMEMBERS <key deny>
-- beside: SREM <key deny> <id>
-- beside: SETEX <key status> 5000 on
-- compare: near 4 unordered
local members = redis.call('SMISMEMBER', KEYS[1], ARGV[1], ARGV[2], ARGV[3])
local left = redis.call('TTL', KEYS[2])
local all = redis.call('SMEMBERS', KEYS[1])
table.sort(all)
return { members, left, all, redis.call('SCARD', KEYS[1]), redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 }
