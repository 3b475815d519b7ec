-- Slots with one key each: the first that MGET finds empty is taken.
-- keys: <key funnel>1 <key funnel>2 <key funnel>3
-- args: <key funnel> <int 2000 9000> <id>
-- beside: DEL <key funnel><int 1 3>
-- beside: MGET <key funnel>1 <key funnel>2 <key funnel>3
for index, value in pairs(redis.call('mget', unpack(KEYS))) do
  if not value then
    redis.call('set', KEYS[index], ARGV[3], 'EX', ARGV[2])
    return ARGV[1] .. index
  end
end
