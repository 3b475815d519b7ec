-- A blob that is replaced if it is what the client last saw, byte for byte.
-- keys: <key blob>
-- args: <bytes> <bytes> <int 3000000 9000000>
-- keys: <key blob>
-- args: <of a|b> <of a|b> <int 3000000 9000000>
-- beside: GET <key blob>
-- beside: SETRANGE <key blob> <int 0 3> <of a|b>
local current = redis.call('get', KEYS[1])
if current == ARGV[1] or not current then
  redis.call('psetex', KEYS[1], ARGV[3], ARGV[2])
  return { 1, #ARGV[2], current }
end
return { 0, #current, string.len(ARGV[1]), current:byte(1, 3) }
