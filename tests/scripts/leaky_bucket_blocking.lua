-- A leaky bucket with a block, its level written with nine digits.
-- keys: <key leak>.level <key leak>.at <key leak>.block
-- args: <now s> <int 1 9> <of 0.5|1|0.001> <int 2000 4000> <int 1 4>
-- beside: GET <key leak>.level
-- beside: DEL <key leak>.block
-- compare: digits near 4
local now, max, leak, block, fill = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
if redis.call('EXISTS', KEYS[3]) == 1 then
  return { redis.call('TTL', KEYS[3]), '0' }
end
local level = tonumber(redis.call('GET', KEYS[1])) or 0
local at = tonumber(redis.call('GET', KEYS[2])) or now
local leaked = level - math.max(0, now - at) * leak
level = math.max(0, leaked) + fill
redis.call('SETEX', KEYS[1], 5000, string.format('%.9f', level))
redis.call('SETEX', KEYS[2], 5000, string.format('%.9f', now))
if level > max then
  redis.call('SETEX', KEYS[3], block, 'blocked')
  return { tonumber(block), string.format('%.9f', level) }
end
return { 0, string.format('%.9f', level), string.format('%d/%5.2f/%s/%q/%x/%g', 3, 1.5, 'a', 'b', 255, 0.1) }
