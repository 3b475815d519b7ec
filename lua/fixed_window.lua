--!strict
--!native
--!optimize 2

-- fixed_window: the first check opens a window of length W; in it at most L are admitted. The first check after it has
-- passed opens the next. Simple to explain, but L at the end of one window and L at the start of the next may come
-- close together: 2L across an edge.
--
-- State: used, opened_at. No state, nothing used (after a refund) and a window that has passed all mean the same: the next
-- admitted check opens a window. Counts and times are whole numbers below 2^53: all of it is exact.

type Limit = { limit: number, window: number, burst: number, num: number, den: number }

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

-- The window that `now` falls into. An older now falls into the one we know; one in which nothing is used (any more) opens
-- again later.
local function current(limit: Limit, now: number, used: number?, opened_at: number?): (number, number)
	if used == nil or now >= (opened_at :: number) + limit.window then
		return 0, now
	end
	local known = opened_at :: number
	if used <= 0 and now > known then
		return 0, now
	end
	return used, known
end

local function check(limit: Limit, now: number, cost: number, f1: number?, f2: number?)
	local used, opened_at = current(limit, now, f1, f2)
	local left = limit.limit - used
	if cost <= left and cost > 0 then
		return true, left - cost, 0, used + cost, opened_at
	end
	if left < 0 then
		left = 0
	end
	if cost == 0 then
		return true, left, 0, f1, f2
	end
	if cost > limit.limit then
		return false, left, -1, f1, f2
	end
	local ready_at = opened_at + limit.window
	if ready_at > END_OF_TIME then
		ready_at = END_OF_TIME
	end
	return false, left, ready_at - now, f1, f2
end

local function full_at(limit: Limit, f1: number?, f2: number?): number
	if f1 == nil then
		return 0
	elseif f1 <= 0 then
		return f2 :: number
	end
	local closes_at = (f2 :: number) + limit.window
	return if closes_at > END_OF_TIME then END_OF_TIME else closes_at
end

-- Refund: what belongs to a window that has passed is forgotten with it.
local function give(limit: Limit, now: number, amount: number, f1: number?, f2: number?)
	local used, opened_at = current(limit, now, f1, f2)
	if amount >= used then
		return 0, math.max(opened_at, now)
	end
	return used - amount, opened_at
end

-- Debt: down to -L, that is 2L used, and no further than that if a smaller limit has left more already.
local function take(limit: Limit, now: number, amount: number, f1: number?, f2: number?)
	local used, opened_at = current(limit, now, f1, f2)
	return math.max(used, math.min(used + amount, 2 * limit.limit)), opened_at
end

-- A changed limit keeps what has been used. When the length changes, the same share of the window has passed as before
-- (rounded down), so that changing it to and fro never opens a window early.
local function resize(old: Limit, new: Limit, now: number, f1: number?, f2: number?)
	local used, opened_at = current(old, now, f1, f2)
	if used == 0 then
		return nil, nil
	end
	if new.window ~= old.window and now > opened_at then
		local passed = multiply_divide(now - opened_at, new.window, old.window)
		opened_at = now - passed
	end
	return used, opened_at
end

-- Sub-bucket i of k, in a window that opened at the same time: an equal share of what is left, what is left over of that
-- to the first ones.
local function split(limit: Limit, part: Limit, now: number, i: number, k: number, f1: number?, f2: number?)
	local used, opened_at = current(limit, now, f1, f2)
	local share = (limit.limit - used + k - 1 - i) // k
	return math.max(part.limit - share, 0), opened_at
end

-- What is left of both, in the window of the later one.
local function merge(limit: Limit, a: Limit, b: Limit, now: number, a1: number?, a2: number?, b1: number?, b2: number?)
	local a_used, a_opened_at = current(a, now, a1, a2)
	local b_used, b_opened_at = current(b, now, b1, b2)
	local left = a.limit - a_used + b.limit - b_used
	local opened_at = math.max(a_opened_at, b_opened_at)
	if a_used == 0 and b_used > 0 then
		opened_at = b_opened_at
	elseif b_used == 0 and a_used > 0 then
		opened_at = a_opened_at
	end
	return math.max(limit.limit - left, 0), opened_at
end

return {
	version = 1,
	fields = { "used", "opened_at" },
	burst = "none",
	check = check,
	full_at = full_at,
	give = give,
	take = take,
	resize = resize,
	split = split,
	merge = merge,
}
