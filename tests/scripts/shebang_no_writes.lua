#!lua flags=no-writes
-- A script that says that it does not write, and sometimes tries to.
-- keys: <key ro>
-- args: <of GET|SET|INCR|TTL|EXISTS> <of a|b>
-- beside: SET <key ro> <int 0 9>
if ARGV[1] == 'SET' then
  return redis.pcall('SET', KEYS[1], ARGV[2])
end
return { redis.call(ARGV[1], KEYS[1]) }
