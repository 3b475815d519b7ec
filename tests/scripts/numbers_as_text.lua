-- Numbers as text within Lua: the digits after the thirteenth may differ, the format may not.
-- keys: <key text>
-- args: <float -1000 1000> <int 1 40> <now ms>
-- beside: GET <key text>
-- compare: digits
local value = tonumber(ARGV[1]) / tonumber(ARGV[2])
redis.call('SET', KEYS[1], 'v:' .. value, 'EX', 8000)
return {
  tostring(value), value .. '', table.concat({ value, 1, 2.5 }, ','), tostring(math.floor(value)), ARGV[3] + 1 .. '',
  string.format('%.3f|%5d|%-5s|%05.1f|%e', value, math.floor(value), 'a', value, value), tostring(1e15), tostring(3.0), tostring(-0.5),
  tostring(2 ^ 31), tostring(1e100), tostring(1 / 0), tostring(-1 / 0), 10 / 2 .. '', 7 % 3 .. '', -7 % 3 .. '', 2 ^ 0.5 .. '',
}
