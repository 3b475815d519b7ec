-- penalty_box: a token bucket that shuts for one window after a check it had to deny. For logins and the like: who keeps
-- trying while denied waits longer than who stops.
--
--   * While open it is a token bucket of B tokens that gains L of them every W.
--   * A check that costs more than there is left shuts it for W. What was left stays, and nothing is gained meanwhile.
--   * While shut, every check is denied with the time that is left of the penalty; it does not start again.
--   * When the penalty is over, the bucket is full.
--
-- This file shows how to write a policy of your own. It has no `split` and no `merge`: a penalty that only a part of a bucket
-- knows would be none, so a key with this policy is never split. It has no `resize` either: a changed limit then starts a new
-- state that is charged with what was used, and a running penalty ends.

-- Levels are whole numbers of 1/den token, so that nothing is ever rounded. This keeps to limits for which those stay
-- below 2^52 (any with B·W up to 50 days of a million tokens); beyond that it says so.
local EXACT = 2 ^ 52

-- Level and time as of now. An older now counts as the time that we know.
local function refill(limit, now, level, filled_at, open_at)
	local capacity = limit.burst * limit.den
	assert(capacity <= EXACT, "penalty_box: this burst and window are too large")
	if level == nil then
		return capacity, now
	elseif open_at ~= nil then
		-- A penalty is running, or over and done with.
		if now >= open_at then
			return capacity, now
		end
		return level, filled_at
	end
	local elapsed = math.max(now - filled_at, 0)
	return math.min(level + elapsed * limit.num, capacity), math.max(now, filled_at)
end

local function whole_tokens(limit, level)
	return math.max(level // limit.den, 0)
end

local function check(limit, now, cost, level, filled_at, open_at)
	local tokens, time = refill(limit, now, level, filled_at, open_at)
	local left = whole_tokens(limit, tokens)
	if cost == 0 then
		return true, left, 0, level, filled_at, open_at -- a peek changes nothing
	elseif cost > limit.burst then
		return false, left, -1, level, filled_at, open_at -- never; no reason for a penalty
	elseif open_at ~= nil and now < open_at then
		-- A denied reply never shows enough for the cost that it denies.
		return false, math.min(left, cost - 1), open_at - now, level, filled_at, open_at
	elseif cost * limit.den <= tokens then
		tokens -= cost * limit.den
		return true, whole_tokens(limit, tokens), 0, tokens, time, nil
	end
	return false, left, time + limit.window - now, tokens, time, time + limit.window
end

local function full_at(limit, level, filled_at, open_at)
	if open_at ~= nil then
		return open_at
	end
	return filled_at + math.ceil((limit.burst * limit.den - level) / limit.num)
end

-- A refund does not lift a penalty.
local function give(limit, now, amount, level, filled_at, open_at)
	local tokens, time = refill(limit, now, level, filled_at, open_at)
	local running = if open_at ~= nil and now < open_at then open_at else nil
	return math.min(tokens + amount * limit.den, limit.burst * limit.den), time, running
end

-- A debt does not start one.
local function take(limit, now, amount, level, filled_at, open_at)
	local tokens, time = refill(limit, now, level, filled_at, open_at)
	local running = if open_at ~= nil and now < open_at then open_at else nil
	return math.max(tokens - amount * limit.den, -limit.burst * limit.den), time, running
end

return {
	version = 1,
	fields = { "level", "filled_at", "open_at" },
	burst = "limit",
	check = check,
	full_at = full_at,
	give = give,
	take = take,
}
