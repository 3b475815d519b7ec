-- Numbers and texts there and back through struct.
-- keys: <key packed>
-- args: <of big|little|native|aligned> <int -128 127> <int 0 65535> <int -2147483648 2147483647> <float -3 3> <bytes>
-- beside: GET <key packed>
local orders = { big = ">", little = "<", native = "=", aligned = "!4" }
local order, b, h, i, d, s = unpack(ARGV)
order = orders[order] or ""
local packed = struct.pack(order .. 'bHi4ds', b, h, i, d, s:gsub('%z', '0'))
redis.call('SET', KEYS[1], packed, 'EX', 7000)
local back = { struct.unpack(order .. 'bHi4ds', redis.call('GET', KEYS[1])) }
return { back[1], back[2], back[3], back[4] == tonumber(d), back[5], back[6], struct.size(order .. 'bHi4d'), packed }
