-- Values of every kind through cjson, in both directions.
-- keys: <key jv>
-- args: {"a":<int -9 9>,"b":[<float -2 2>,null,true],"c":"<int 0 9>\u00e9\n"}
-- keys: <key jv>
-- args: [<int 0 9>,[],{},[[<int 0 9>]],"x\/y"]
-- keys: <key jv>
-- args: <of 1|"a"|true|null|[1|{"a"|nope|"\x"|1e5|-0.5|1E400|[1,]|{"a":1,}|01|" ">
-- keys: <key jv>
-- args: <big>
-- beside: GET <key jv>
-- compare: digits
local ok, value = pcall(cjson.decode, ARGV[1])
if not ok then
  return { 'error', value:find('bad argument', 1, true) and '' or (string.gsub(value, '^user_script:%d+: ', '')) }
end
local function shape(value)
  if value == cjson.null then
    return 'null'
  elseif type(value) ~= 'table' then
    return type(value) .. ' ' .. tostring(value)
  end
  local names = {}
  for name in pairs(value) do
    names[#names + 1] = tostring(name)
  end
  table.sort(names)
  for i, name in ipairs(names) do
    local inner = value[name]
    if inner == nil then
      inner = value[tonumber(name)]
    end
    names[i] = name .. '=' .. shape(inner)
  end
  return '(' .. table.concat(names, ' ') .. ')'
end
local text = shape(value)
redis.call('SET', KEYS[1], text, 'EX', 9000)
local again = type(value) == 'table' and #value > 0 and cjson.encode(value) or '-'
return { text, again, cjson.encode({ 1, 'a"\\/\b\1\127', true, 0.5, 1e20, 123456789012 }), cjson.encode({ [1] = 1, [3] = cjson.null }) }
