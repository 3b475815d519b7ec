-- A list of packed jobs; what is no message is an error.
-- keys: <key mpl>
-- args: <of push|read|bad> <id> <int 0 300>
-- beside: LPUSH <key mpl> not-packed
-- beside: LLEN <key mpl>
if ARGV[1] == 'push' then
  return redis.call('RPUSH', KEYS[1], cmsgpack.pack({ id = ARGV[2] }, ARGV[3] + 0))
elseif ARGV[1] == 'bad' then
  local ok, problem = pcall(cmsgpack.unpack, '\217\255abc')
  return { ok and 1 or 0, type(problem) }
end
local item = redis.call('LPOP', KEYS[1])
if not item then
  return false
end
local ok, job, count = pcall(cmsgpack.unpack, item)
if ok and type(job) == 'table' then
  return { job.id, count }
end
return { 'unreadable', ok }
