-- Jobs of several priorities in lists, looked up by names that the script makes.
-- keys: <key q>
-- args: <of push|pop|size> <int 0 3> <bytes>
-- beside: LLEN <key q>:1
-- beside: LRANGE <key q>:0 0 -1
if ARGV[1] == 'push' then
  redis.call('SADD', KEYS[1] .. ':priorities', ARGV[2])
  return redis.call('RPUSH', KEYS[1] .. ':' .. ARGV[2], ARGV[3])
elseif ARGV[1] == 'pop' then
  for priority = 0, 3 do
    local job = redis.call('LPOP', KEYS[1] .. ':' .. priority)
    if job then
      return { priority, job }
    end
  end
  return nil
end
local sizes = {}
for priority = 0, 3 do
  sizes[priority + 1] = redis.call('LLEN', KEYS[1] .. ':' .. priority)
end
return sizes
