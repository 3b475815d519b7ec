-- A bucket whose state is one JSON text.
-- keys: <key json>
-- args: <int 1 12> <int 1 5> <now ms> <int 1 3>
-- beside: GET <key json>
-- beside: SET <key json> {"tokens":<int 0 9>,"at":2000000000000}
-- beside: SET <key json> not-json
-- compare: digits near 3000
local raw = redis.call('GET', KEYS[1])
local state
if raw then
  state = cjson.decode(raw)
else
  state = { tokens = tonumber(ARGV[1]), at = tonumber(ARGV[3]) }
end
local grown = math.floor((ARGV[3] - state.at) / 1000) * ARGV[2]
if grown > 0 then
  state.tokens = math.min(tonumber(ARGV[1]), state.tokens + grown)
  state.at = tonumber(ARGV[3])
end
local ok = state.tokens >= tonumber(ARGV[4])
if ok then
  state.tokens = state.tokens - ARGV[4]
end
redis.call('SET', KEYS[1], cjson.encode({ tokens = state.tokens, at = state.at }), 'PX', 9000000)
local back = cjson.decode(redis.call('GET', KEYS[1]))
return { ok, back.tokens, tostring(back.at == state.at) }
