-- The settings of cjson hold for one run only.
-- keys: <key js>
-- args: <int 1 20> <int 1 14>
local deep = '1'
for _ = 1, math.min(20, ARGV[1]) do
  deep = '[' .. deep .. ']'
end
cjson.decode_max_depth(10)
local decoded = pcall(cjson.decode, deep)
cjson.encode_max_depth(5)
local nested = {}
for _ = 1, math.min(20, ARGV[1]) do
  nested = { nested }
end
local encoded = pcall(cjson.encode, nested)
cjson.encode_number_precision(ARGV[2])
local third = cjson.encode(1 / 3)
cjson.encode_number_precision(14)
cjson.encode_sparse_array(true, 2, 10)
local sparse = cjson.encode({ [20] = 1 })
cjson.encode_sparse_array(false)
local invalid = pcall(cjson.encode, { [2000] = 1 })
cjson.encode_max_depth(1000)
cjson.decode_max_depth(1000)
cjson.encode_sparse_array(false, 2, 10)
return { decoded, encoded, third, sparse, invalid, pcall(cjson.encode, 0 / 0) }
