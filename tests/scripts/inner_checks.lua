-- Commands that a script gets wrong: too few arguments, none, of a wrong kind, and those that are not allowed.
-- keys: <key in>
-- args: <int 0 13>
-- beside: GET <key in>
local tries = {
  function() return redis.call() end,
  function() return redis.call('GET') end,
  function() return redis.call('GET', {}) end,
  function() return redis.call('GET', nil) end,
  function() return redis.call('GET', true) end,
  function() return redis.call('SUBSCRIBE', 'x') end,
  function() return redis.call('MULTI') end,
  function() return redis.call('EVAL', 'return 1', 0) end,
  function() return redis.call('BLPOP', KEYS[1], 0) end,
  function() return redis.call('') end,
  function() return redis.call('SET', KEYS[1], 'v', 'PX', 0) end,
  function() return redis.call('SET', KEYS[1], 'v', 'NX', 'XX') end,
  function() return { redis.pcall('GET').err, redis.pcall('NOSUCH').err, redis.pcall('GET', {}).err } end,
}
local try = tries[tonumber(ARGV[1])]
if try then
  return try()
end
return redis.call('SET', KEYS[1], 1, 'EX', 9000)
