-- State packed with cmsgpack; the bytes in the key have to be the same too.
-- keys: <key mp>
-- args: <int -100000 100000> <float -9 9> <bytes> <big> <of true|false|nil>
-- beside: GET <key mp>
-- beside: STRLEN <key mp>
local flags = { ['true'] = true, ['false'] = false }
local state = { tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), { flags[ARGV[5]], 1 }, { a = 1 }, {} }
local packed = cmsgpack.pack(state)
redis.call('SET', KEYS[1], packed, 'EX', 7000)
local back = cmsgpack.unpack(redis.call('GET', KEYS[1]))
local one, two = cmsgpack.unpack(cmsgpack.pack(ARGV[3], ARGV[1]))
return { back[1], back[2] == state[2], back[3], back[4] == state[4], back[5], back[6].a, #back[7], one, two, #packed }
