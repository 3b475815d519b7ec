-- Errors of commands: raised, caught by pcall, given back by redis.pcall.
-- keys: <key pc>
-- args: <of INCR|HGET|LPUSH|NOSUCH|GET|SET|ZADD|EXPIRE> <of a|b> <int 0 3>
-- beside: HSET <key pc> a 1
-- beside: LPUSH <key pc> a
-- beside: SET <key pc> x
local command, argument = ARGV[1], ARGV[2]
if ARGV[3] == '0' then
  return redis.pcall(command, KEYS[1], argument)
elseif ARGV[3] == '1' then
  return redis.call(command, KEYS[1], argument)
elseif ARGV[3] == '2' then
  local reply = redis.pcall(command, KEYS[1], argument)
  if type(reply) == 'table' and reply.err then
    return { 'caught', reply.err, reply.ok }
  end
  return { 'fine', reply }
end
local ok, problem = pcall(redis.call, command, KEYS[1], argument)
return { ok, type(problem), type(problem) == 'string' and problem or '' }
