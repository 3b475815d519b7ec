-- Rules come as JSON in an argument and the answer is JSON; no rules give an empty object.
-- keys: <key rule> <key rule>:b
-- args: [[2000,<int 1 9>],[3000,<int 1 9>]]
-- keys: <key rule>
-- args: []
-- keys: <key rule>
-- args: {"limit":<int 1 9>}
-- beside: GET <key rule>
local rules = cjson.decode(ARGV[1])
local denied = {}
for i, rule in pairs(rules) do
  if type(rule) == 'table' and KEYS[i] then
    redis.call('SET', KEYS[i], rule[2], 'EX', rule[1], 'NX')
    local left = redis.call('DECR', KEYS[i])
    if left < 0 then
      denied[#denied + 1] = i
    end
  end
end
return { cjson.encode(denied), cjson.encode(rules), #KEYS }
