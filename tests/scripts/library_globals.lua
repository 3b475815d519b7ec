-- Globals that exist, those that do not, and those that cannot be written.
-- keys: <key gl>
-- args: <int 0 9>
-- compare: digits
local tries = {
  ['0'] = function() return unknown_global end,
  ['1'] = function() new_global = 1 end,
  ['2'] = function() return { _VERSION, type(redis), type(cjson), type(bit), type(struct), type(cmsgpack), type(math.random) } end,
  ['3'] = function() return { pcall(function() return print end) } end,
  ['4'] = function() redis.call = nil end,
  ['5'] = function() string.rep = nil end,
  ['6'] = function() return { pcall(loadstring, 'return 1 +') } end,
  ['7'] = function() return loadstring('return 6 * 7')() end,
  ['8'] = function() return { redis.sha1hex(ARGV[1]), redis.LOG_WARNING, redis.log(redis.LOG_DEBUG, 'x'), redis.REPL_ALL } end,
  ['9'] = function() return { type(_G), _G == _G._G, rawget(_G, 'unknown') == nil, rawequal('a', 'a'), type(next), type(tostring(_G)) } end,
}
return (tries[ARGV[1]] or function() end)()
