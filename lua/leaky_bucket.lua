--!strict
--!native
--!optimize 2

-- leaky_bucket: every admitted check pours its cost into a bucket of size B that leaks L every W, evenly. A check that
-- would make it run over is denied. With the default burst of 1 this spaces checks evenly, W/L apart; with a larger one, B
-- of them may come at once. Over any time t it admits at most B + L·t/W.
--
-- Only an allowed check changes the state: what has leaked since is taken off when the next check comes.
--
-- Exactness. The bucket leaks num/den tokens a microsecond (L/W in lowest terms), so every water level is a whole number of
-- 1/den tokens. A number is exact up to 2^53, hence two layouts:
--   narrow (B·den up to 2^52)   water in units of 1/den token, leaked_at
--   wide   (beyond)             whole tokens, leaked_at, drop: the rest of a token in units of 1/den, 0 <= drop < den
-- Both are exact; nearly every limit in practice is narrow. No state at all means an empty bucket, which admits the most
-- ("full" in the words of the other policies).

type Limit = { limit: number, window: number, burst: number, num: number, den: number }

local EXACT = 4503599627370496 -- 2^52: up to twice that (a full debt above a full bucket) a level is still exact
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

-- Whole tokens of water, drop and leaked_at of either layout, up to now. An older now leaks nothing.
local function leak(limit: Limit, now: number, f1: number?, f2: number?, f3: number?): (number, number, number)
	local num, den = limit.num, limit.den
	if f1 == nil then
		return 0, 0, now
	end
	local whole: number, leaked_at: number, drop: number = f1, f2 :: number, 0
	if f3 == nil then
		whole = f1 // den
		drop = f1 - whole * den
	else
		drop = f3
	end
	if now <= leaked_at then
		return whole, drop, leaked_at
	end
	-- Every den microseconds leak exactly num tokens; only the rest needs the long division. Where the first product is
	-- too large to be exact, it is also far more than a bucket holds.
	local elapsed = now - leaked_at
	local rounds = elapsed // den
	whole -= rounds * num
	if whole >= 0 then
		local gone, rest = multiply_divide(elapsed - rounds * den, num, den)
		whole -= gone
		drop -= rest
		if drop < 0 then
			whole -= 1
			drop += den
		end
	end
	if whole < 0 then
		return 0, 0, now
	end
	return whole, drop, now
end

-- The state for whole + drop/den tokens of water. A bucket far above its brim after its burst shrank may need the wide
-- layout although the limit is narrow.
local function pack(limit: Limit, whole: number, drop: number, leaked_at: number): (number, number, number?)
	local den = limit.den
	if limit.burst * den <= EXACT and (whole + 1) * den <= 2 * EXACT then
		return whole * den + drop, leaked_at, nil
	end
	return whole, leaked_at, drop
end

-- Microseconds until `tokens` + drop/den tokens have leaked, rounded up.
local function time_to_leak(limit: Limit, tokens: number, drop: number): number
	local num, den = limit.num, limit.den
	local rounds = tokens // num
	local time, rest = multiply_divide(tokens - rounds * num, den, num)
	return rounds * den + time + math.ceil((rest + drop) / num)
end

-- What still goes in: the room above the water in whole tokens, rounded down.
local function room(limit: Limit, whole: number, drop: number): number
	return math.max(limit.burst - whole - (if drop > 0 then 1 else 0), 0)
end

local function check_wide(limit: Limit, now: number, cost: number, f1: number?, f2: number?, f3: number?)
	local whole, drop, leaked_at = leak(limit, now, f1, f2, f3)
	local remaining = room(limit, whole, drop)
	if cost == 0 then
		return true, remaining, 0, f1, f2, f3
	end
	if cost <= remaining then
		return true, remaining - cost, 0, pack(limit, whole + cost, drop, leaked_at)
	end
	if cost > limit.burst then
		return false, remaining, -1, f1, f2, f3
	end
	local stored_whole, stored_drop, stored_at = leak(limit, 0, f1, f2, f3)
	local surplus = stored_whole + cost - limit.burst
	local ready_at = math.min(stored_at + time_to_leak(limit, surplus, stored_drop), END_OF_TIME)
	return false, remaining, ready_at - now, f1, f2, f3
end

local function check(limit: Limit, now: number, cost: number, f1: number?, f2: number?, f3: number?)
	local den = limit.den
	local brim = limit.burst * den
	if f3 ~= nil or brim > EXACT then
		return check_wide(limit, now, cost, f1, f2, f3)
	end

	local water, leaked_at = 0, now
	if f1 ~= nil then
		water, leaked_at = f1, f2 :: number
		if now > leaked_at then
			-- A product above 2^53 is rounded, but then the bucket is empty whatever it is.
			water -= (now - leaked_at) * limit.num
			if water < 0 then
				water = 0
			end
			leaked_at = now
		end
	end

	local poured = cost * den
	if water + poured <= brim and cost > 0 then
		water += poured
		return true, (brim - water) // den, 0, water, leaked_at, nil
	end

	local remaining = if water < brim then (brim - water) // den else 0
	if cost == 0 then
		return true, remaining, 0, f1, f2, nil
	end
	if cost > limit.burst or f1 == nil then
		return false, remaining, -1, f1, f2, nil
	end
	-- Counted from the stored level, and up to the reading we were given: right too when that reading is an older one.
	local ready_at = (f2 :: number) + math.ceil((f1 - (brim - poured)) / limit.num)
	if ready_at > END_OF_TIME then
		ready_at = END_OF_TIME
	end
	return false, remaining, ready_at - now, f1, f2, nil
end

local function full_at(limit: Limit, f1: number?, f2: number?, f3: number?): number
	if f1 == nil then
		return 0
	end
	local empty: number
	if f3 == nil then
		empty = (f2 :: number) + math.ceil(f1 / limit.num)
	else
		empty = (f2 :: number) + time_to_leak(limit, f1, f3)
	end
	return if empty > END_OF_TIME then END_OF_TIME else empty
end

-- Refund: water is taken out again, never below empty.
local function give(limit: Limit, now: number, amount: number, f1: number?, f2: number?, f3: number?)
	local whole, drop, leaked_at = leak(limit, now, f1, f2, f3)
	whole -= amount
	if whole < 0 then
		whole, drop = 0, 0
	end
	return pack(limit, whole, drop, leaked_at)
end

-- Debt: water up to 2B, and no higher than that if a smaller burst has left it higher already.
local function take(limit: Limit, now: number, amount: number, f1: number?, f2: number?, f3: number?)
	local whole, drop, leaked_at = leak(limit, now, f1, f2, f3)
	local most = 2 * limit.burst
	if whole + amount < most then
		whole += amount
	elseif whole < most then
		whole, drop = most, 0
	end
	return pack(limit, whole, drop, leaked_at)
end

-- A rest of a token in the units of another limit. Rounded up: water never vanishes by rounding.
local function convert(drop: number, from: Limit, to: Limit): number
	if from.den == to.den then
		return drop
	end
	local units, rest = multiply_divide(drop, to.den, from.den)
	return if rest > 0 then units + 1 else units
end

-- A changed limit keeps the water.
local function resize(old: Limit, new: Limit, now: number, f1: number?, f2: number?, f3: number?)
	if f1 == nil then
		return nil, nil, nil
	end
	local whole, drop, leaked_at = leak(old, now, f1, f2, f3)
	drop = convert(drop, old, new)
	if drop == new.den then
		whole, drop = whole + 1, 0
	end
	return pack(new, whole, drop, leaked_at)
end

-- Sub-bucket i of k gets an equal share of the room (in whole tokens, what is left over to the first ones); its water is
-- what that leaves of its own burst.
local function split(limit: Limit, part: Limit, now: number, i: number, k: number, f1: number?, f2: number?, f3: number?)
	local whole, drop, leaked_at = leak(limit, now, f1, f2, f3)
	local free = limit.burst - whole - (if drop > 0 then 1 else 0)
	local share = (free + k - 1 - i) // k
	local rest = 0
	if i == 0 and drop > 0 then
		-- 1 - drop/den of a token of room is left over as well: it goes to the first.
		share += 1
		rest = convert(drop, limit, part)
		if rest == part.den then
			share, rest = share - 1, 0
		end
	end
	if share > part.burst then
		share, rest = part.burst, 0
	end
	return pack(part, part.burst - share, rest, leaked_at)
end

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
	local a_whole, a_drop, a_leaked_at = leak(a, now, a1, a2, a3)
	local b_whole, b_drop, b_leaked_at = leak(b, now, b1, b2, b3)
	-- Room is what may not grow: where the two bursts together are less than the new one, the difference counts as water.
	local whole = a_whole + b_whole + math.max(limit.burst - a.burst - b.burst, 0)
	local drop = convert(a_drop, a, limit) + convert(b_drop, b, limit)
	while drop >= limit.den do
		whole += 1
		drop -= limit.den
	end
	return pack(limit, whole, drop, math.max(a_leaked_at, b_leaked_at))
end

return {
	version = 1,
	fields = { "water", "leaked_at", "drop" },
	burst = 1,
	check = check,
	full_at = full_at,
	give = give,
	take = take,
	resize = resize,
	split = split,
	merge = merge,
}
