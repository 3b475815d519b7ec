-- The table library: insert, remove, concat, sort with and without a comparison, unpack, select, next.
-- keys: <key tab>
-- args: <many 0 9 int -20 20>
-- compare: digits
-- beside: LRANGE <key tab> 0 -1
local numbers = {}
for _, value in ipairs(ARGV) do
  local number = tonumber(value) or 0
  table.insert(numbers, number == number and number or 0)
end
local sorted = { unpack(numbers) }
table.sort(sorted)
local down = { unpack(numbers) }
table.sort(down, function(a, b) return a > b end)
local removed = table.remove(sorted) or 'none'
local first = table.remove(sorted, 1) or 'none'
table.insert(sorted, 1, 99)
redis.call('DEL', KEYS[1])
if #down > 0 then
  redis.call('RPUSH', KEYS[1], unpack(down))
end
local texts = { unpack(ARGV) }
table.sort(texts)
local sum = 0
table.foreachi(numbers, function(_, value) sum = sum + value end)
return {
  sorted, down, removed, first, texts, table.concat(numbers, '|'), #numbers, table.maxn(numbers), table.getn(numbers), sum, select('#', unpack(ARGV)),
  (select(-1, 0, unpack(numbers))), next({}) == nil, math.max(0, unpack(numbers)), math.min(0, unpack(numbers)),
}
