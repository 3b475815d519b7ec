--!strict
--!native
--!optimize 2

-- sliding_window: time is cut into windows of length W (aligned to W: the first began at Unix time 0). Two counters are kept,
-- for the current window and for the one before, and what was used in the last W is estimated as if the previous window's
-- usage had been even:
--     estimate = current + previous · (W - e) / W      e = time since the current window began
-- A check of cost c is allowed when estimate + c <= L. Against the exact log this errs either way: it admits less when the
-- previous usage came early, more when it came late. No aligned window ever admits more than L, so no W admits more than 2L.
--
-- Costs are whole numbers, so rounding the estimate up (the weight leans to denying) decides exactly as the formula does.
-- The previous counter is given back as floor(previous · e / W), by whole-number arithmetic: decisions and waits are exact.
--
-- State: changed_at (which also says which window is current), current, previous. A trailing nil is not stored: previous is
-- nil when it is 0. No state at all means nothing used.

type Limit = { limit: number, window: number, burst: number, num: number, den: number }

local EXACT = 9007199254740992 -- 2^53: whole numbers up to here are exact
local END_OF_TIME = 9007199254740992 -- 2^53 us: no clock reading reaches it, so it stands for every later time

-- a * b / d as quotient and remainder, exact though a * b is far beyond 2^53: long division as on paper, seven bits of b
-- at a time. Needs 0 <= a < d < 2^45 and 0 <= b < 2^49, so that no step exceeds 255 * 2^45 < 2^53.
local function multiply_divide(a: number, b: number, d: number): (number, number)
	local quotient, remainder = 0, 0
	local place = 4398046511104 -- 2^42
	while place >= 1 do
		local digit = b // place
		b -= digit * place
		remainder = remainder * 128 + a * digit
		local times = remainder // d
		quotient = quotient * 128 + times
		remainder -= times * d
		place /= 128
	end
	return quotient, remainder
end

-- How much of the previous window's usage has been given back e microseconds into the current one.
local function given_back(previous: number, e: number, window: number): number
	local product = previous * e
	if product <= EXACT then
		return product // window
	end
	local back = multiply_divide(e, previous, window)
	return back
end

-- The first moment of a window, counted from its beginning, at which `wanted` of `previous` have been given back.
local function time_to_give_back(wanted: number, previous: number, window: number): number
	if wanted >= previous then
		return window
	end
	local product = wanted * window
	if product <= EXACT then
		return math.ceil(product / previous)
	end
	local time, rest = multiply_divide(wanted, window, previous)
	return if rest > 0 then time + 1 else time
end

-- The counters as of `now`: time, current, previous, estimate. An older now counts as the time of the last change.
local function roll(limit: Limit, now: number, f1: number?, f2: number?, f3: number?): (number, number, number, number)
	if f1 == nil then
		return now, 0, 0, 0
	end
	local window = limit.window
	local time = if now > f1 then now else f1
	local current: number, previous: number = f2 :: number, f3 or 0
	local moved = time // window - f1 // window
	if moved == 1 then
		current, previous = 0, current
	elseif moved > 1 then
		return time, 0, 0, 0
	end
	if previous == 0 then
		return time, current, 0, current
	end
	return time, current, previous, current + previous - given_back(previous, time % window, window)
end

-- The state for these counters.
local function pack(time: number, current: number, previous: number): (number?, number?, number?)
	if previous > 0 then
		return time, current, previous
	elseif current > 0 then
		return time, current, nil
	end
	return time, 0, nil
end

local function check(limit: Limit, now: number, cost: number, f1: number?, f2: number?, f3: number?)
	local time, current, previous, estimate = roll(limit, now, f1, f2, f3)
	local left = limit.limit - estimate
	if cost <= left and cost > 0 then
		return true, left - cost, 0, time, current + cost, if previous > 0 then previous else nil
	end
	if left < 0 then
		left = 0
	end
	if cost == 0 then
		return true, left, 0, f1, f2, f3
	end
	if cost > limit.limit then
		return false, left, -1, f1, f2, f3
	end

	local window = limit.window
	local ready_at = time - time % window
	local surplus = current + cost - limit.limit
	if surplus <= 0 then
		-- Enough comes back of the previous window while the current one lasts.
		ready_at += time_to_give_back(surplus + previous, previous, window)
	else
		-- Only after it, when the current window is the previous one.
		ready_at += window + time_to_give_back(surplus, current, window)
	end
	if ready_at > END_OF_TIME then
		ready_at = END_OF_TIME
	end
	return false, left, ready_at - now, f1, f2, f3
end

local function full_at(limit: Limit, f1: number?, f2: number?, f3: number?): number
	if f1 == nil then
		return 0
	end
	local window = limit.window
	local full: number
	if (f2 :: number) > 0 then
		full = f1 - f1 % window + 2 * window
	elseif f3 ~= nil then
		full = f1 - f1 % window + window
	else
		full = f1
	end
	return if full > END_OF_TIME then END_OF_TIME else full
end

-- Refund: the latest usage first. One that reaches into the previous window gives back at most what it still weighs.
local function give(limit: Limit, now: number, amount: number, f1: number?, f2: number?, f3: number?)
	local time, current, previous = roll(limit, now, f1, f2, f3)
	local older = math.max(amount - current, 0)
	return pack(time, math.max(current - amount, 0), math.max(previous - older, 0))
end

-- Debt: down to -L, that is an estimate of 2L, and no further than that if a smaller limit has left more already.
local function take(limit: Limit, now: number, amount: number, f1: number?, f2: number?, f3: number?)
	local time, current, previous, estimate = roll(limit, now, f1, f2, f3)
	local most = math.max(2 * limit.limit - estimate, 0)
	return pack(time, current + math.min(amount, most), previous)
end

-- A changed limit keeps what has been used. The same length keeps the counters; another one has other windows, in which
-- all of it counts as used now.
local function resize(old: Limit, new: Limit, now: number, f1: number?, f2: number?, f3: number?)
	local time, current, previous, estimate = roll(old, now, f1, f2, f3)
	if estimate == 0 then
		return nil, nil, nil
	elseif new.window == old.window then
		return pack(time, current, previous)
	end
	return pack(time, estimate, 0)
end

-- Sub-bucket i of k, in the same window: an equal share of what is left, what is left over of that to the first ones.
-- Think of each counter as places 0 to L-1, of which place p belongs to sub-bucket p mod k, filled from the top; the
-- previous window's usage goes on where the current one's ends. The shares of a counter add up to it. Where the weights
-- round in a part's favour, that counts as used by it.
local function split(limit: Limit, part: Limit, now: number, i: number, k: number, f1: number?, f2: number?, f3: number?)
	local time, current, previous, estimate = roll(limit, now, f1, f2, f3)
	local last = k - 1 - i
	local all = (limit.limit + last) // k
	local left_now = (limit.limit - current + last) // k
	local left_before = (limit.limit - current - previous + last) // k
	local part_previous = left_now - left_before
	local weight = part_previous - given_back(part_previous, time % limit.window, limit.window)
	local share = (limit.limit - estimate + last) // k
	local part_current = math.max(all - left_now, part.limit - share - weight, 0)
	return pack(time, part_current, part_previous)
end

-- Counters of the same window are added. One that is behind counts with its estimate, as used now.
local function merge(
	limit: Limit,
	a: Limit,
	b: Limit,
	now: number,
	a1: number?,
	a2: number?,
	a3: number?,
	b1: number?,
	b2: number?,
	b3: number?
)
	local a_time, a_current, a_previous, a_estimate = roll(a, now, a1, a2, a3)
	local b_time, b_current, b_previous, b_estimate = roll(b, now, b1, b2, b3)
	-- Where the two limits together are less than the new one, the difference counts as used.
	local current = math.max(limit.limit - a.limit - b.limit, 0)
	if a_time < b_time then
		return pack(b_time, current + b_current + a_estimate, b_previous)
	elseif b_time < a_time then
		return pack(a_time, current + a_current + b_estimate, a_previous)
	end
	return pack(a_time, current + a_current + b_current, a_previous + b_previous)
end

return {
	version = 1,
	fields = { "changed_at", "current", "previous" },
	burst = "none",
	check = check,
	full_at = full_at,
	give = give,
	take = take,
	resize = resize,
	split = split,
	merge = merge,
}
