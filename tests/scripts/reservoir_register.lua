-- A job asks for a reservoir and gets one or has to wait; several keys, a settings hash, errors that are texts of one word.
-- keys: b_<key res>_settings b_<key res>_running b_<key res>_jobs
-- args: init <id> <int 1 5> <int 1 4> <now ms>
-- keys: b_<key res>_settings b_<key res>_running b_<key res>_jobs
-- args: register <id> <int 1 3> <int 1 5> <now ms>
-- keys: b_<key res>_settings b_<key res>_running b_<key res>_jobs
-- args: free <id> <int 1 3> 0 <now ms>
-- beside: HGETALL b_<key res>_settings
-- beside: ZRANGE b_<key res>_running 0 -1 WITHSCORES
-- compare: bare-code
local settings, running, jobs = unpack(KEYS)
local action, job, weight, priority, now = unpack(ARGV)
weight = tonumber(weight)

local function get(...)
  local values = redis.call('hmget', settings, ...)
  local result = {}
  for i, name in ipairs({ ... }) do
    result[name] = values[i] and tonumber(values[i]) or nil
  end
  return result
end

if action == 'init' then
  redis.call('hmset', settings, 'reservoir', priority * 3, 'maxConcurrent', weight, 'running', 0, 'done', 0, 'nextRequest', now)
  redis.call('pexpire', settings, 8000000)
  return {}
end
if redis.call('exists', settings) == 0 then
  return redis.error_reply('SETTINGS_KEY_NOT_FOUND')
end
local state = get('reservoir', 'maxConcurrent', 'running', 'nextRequest')
if action == 'free' then
  local held = redis.call('zscore', running, job)
  if not held then
    return redis.error_reply('UNKNOWN_CLIENT')
  end
  redis.call('zrem', running, job)
  redis.call('hincrby', settings, 'running', -held)
  redis.call('hincrby', settings, 'done', held)
  return { redis.call('hget', settings, 'running') }
end
if weight > (state.maxConcurrent or 0) then
  return redis.error_reply('OVERWEIGHT:' .. weight .. ':' .. tostring(state.maxConcurrent))
end
local fits = state.running + weight <= state.maxConcurrent and state.reservoir >= weight
if not fits or redis.call('hexists', jobs, job) == 1 and redis.call('zscore', running, job) then
  return { false, state.reservoir, nil, 'cut off' }
end
redis.call('hset', jobs, job, weight)
redis.call('zadd', running, weight, job)
redis.call('hincrby', settings, 'running', weight)
redis.call('hincrby', settings, 'reservoir', -weight)
redis.call('hset', settings, 'nextRequest', math.max(now, state.nextRequest) + 250)
redis.call('publish', 'b_' .. job, 'capacity:' .. state.reservoir - weight)
return { true, math.max(state.nextRequest - now, 0), state.reservoir - weight }
