-- Compare and set, as a library does that counts in the client.
-- keys: throttled:<key cas>
-- args: <of 1|2|3|4> <int 1 4> <int 2000 9000>
-- beside: GET throttled:<key cas>
-- beside: SETNX throttled:<key cas> <int 1 4>
-- compare: bare-code
local v = redis.call('get', KEYS[1])
if v == false then
  return redis.error_reply("key does not exist")
end
if v ~= ARGV[1] then
  return 0
end
if ARGV[3] ~= '0' then
  redis.call('setex', KEYS[1], ARGV[3], ARGV[2])
else
  redis.call('set', KEYS[1], ARGV[2])
end
return 1
