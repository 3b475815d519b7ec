-- Errors as replies, with and without a code, returned, raised, and inside of an array.
-- keys: <key err>
-- args: <of MY_CODE text of it|CODE|-CODE text|-CODE|two words|ERR known> <int 0 6>
-- beside: GET <key err>
-- compare: bare-code
redis.call('SET', KEYS[1], ARGV[2], 'EX', 9000)
if ARGV[2] == '0' then
  return redis.error_reply(ARGV[1])
elseif ARGV[2] == '1' then
  return { err = ARGV[1] ~= '' and ARGV[1]:gsub('^-', '') .. ' x' or 'E x' }
elseif ARGV[2] == '2' then
  return redis.status_reply(ARGV[1])
elseif ARGV[2] == '3' then
  return { 1, redis.status_reply(ARGV[1]), { err = 'INNER error' }, 2 }
elseif ARGV[2] == '4' then
  error(ARGV[1] .. ' raised')
elseif ARGV[2] == '5' then
  error({ err = 'RAISED as a table' })
end
return { redis.error_reply('A b').err, redis.status_reply('A b').ok, redis.error_reply(1).err, pcall(redis.status_reply) }
