-- Text as numbers: tonumber with and without a base, arithmetic, comparisons.
-- keys:
-- args: <of 10|0x10| 7 |1e3|1e|.5|5.|-|--1|+3|1_000|٣|nan|inf|infinity|0b1|1,5||0x|0x1p4|1 2> <of 2|8|10|16|36>
-- keys:
-- args: <int -99 99> <of 2|8|10|16|36>
local text, base = ARGV[1], tonumber(ARGV[2])
local plain, based = tonumber(text), tonumber(text, base)
local function show(value)
  if value ~= value then
    return 'nan'
  end
  return value ~= nil and string.format('%.10g', value) or 'none'
end
local sum, problem = pcall(function() return text + 1 end)
return { show(plain), show(based), sum and show(problem) or 'error', text == '10', text < '7', (text .. 'x'):len(), tonumber(' 0x1F '), tonumber('z', 36) }
