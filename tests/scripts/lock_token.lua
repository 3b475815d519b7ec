-- A lock with a token: SET NX PX, and its release by whoever has the token. The reply of SET is a table or false.
-- keys: <key lock>
-- args: <of take|free|extend> <bytes> <int 3000000 9000000>
-- keys: <key lock>
-- args: <of take|free|extend> <id> <int 3000000 9000000>
-- beside: GET <key lock>
-- beside: PTTL <key lock>
-- compare: near 5000
if ARGV[1] == 'take' then
  if redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3], 'nx') then
    return 1
  end
  return redis.call('pttl', KEYS[1])
elseif redis.call('get', KEYS[1]) == ARGV[2] then
  if ARGV[1] == 'free' then
    return redis.call('del', KEYS[1])
  end
  return redis.call('pexpire', KEYS[1], ARGV[3])
end
return 0
