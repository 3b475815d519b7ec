-- Errors that are caught and raised again, through coroutines and xpcall.
-- keys: <key pn>
-- args: <int 0 6> <of text|7>
-- compare: near 5000
-- beside: SADD <key pn> a
local function fail()
  redis.call('INCR', KEYS[1])
  error(ARGV[2], 0)
end
if ARGV[1] == '0' then
  return { pcall(pcall, fail) }
elseif ARGV[1] == '1' then
  return { xpcall(fail, function(problem) return { 'handled', type(problem) } end) }
elseif ARGV[1] == '2' then
  local thread = coroutine.create(fail)
  local ok, problem = coroutine.resume(thread)
  return { ok, type(problem), coroutine.status(thread), (coroutine.resume(thread)) }
elseif ARGV[1] == '3' then
  local ok, problem = pcall(fail)
  error(problem, 0)
elseif ARGV[1] == '4' then
  return { pcall(error, { code = 5, err = 'E table' }) }
elseif ARGV[1] == '5' then
  local each = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(redis.call('PTTL', KEYS[1]) + i) end end)
  return { each(), each(), each() }
end
return { pcall(error), pcall(error, nil), select('#', pcall(error)) }
