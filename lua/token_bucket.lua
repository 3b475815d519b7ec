--!strict
--!native
--!optimize 2

-- token_bucket: a bucket holds up to B tokens and gains L of them every W, evenly. A check of cost c is allowed when at
-- least c tokens are there, and takes them. Over any time t it admits at most B + L·t/W.
--
-- Nothing runs in the background: what was gained since the last change is added when the next check comes. Only an
-- allowed check changes the state, so asking often costs no refill.
--
-- Exactness. The bucket gains num/den tokens a microsecond (L/W in lowest terms), so 1/den of a token is the smallest amount
-- there ever is, and every level is a whole number of those. A number is exact up to 2^53, hence two layouts:
--   narrow (B·den up to 2^52)   level in units of 1/den token, filled_at
--   wide   (beyond)             whole tokens, filled_at, carry: the rest of a token in units of 1/den, 0 <= carry < den
-- Both are exact; nearly every limit in practice is narrow. No state at all means a full bucket.

type Limit = { limit: number, window: number, burst: number, num: number, den: number }

local EXACT = 4503599627370496 -- 2^52: a level from -EXACT to EXACT lacks at most 2^53 to full, still exact
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

-- Whole tokens, carry and filled_at of either layout, refilled up to now. An older now gains nothing.
local function refill(limit: Limit, now: number, f1: number?, f2: number?, f3: number?): (number, number, number)
	local num, den, burst = limit.num, limit.den, limit.burst
	if f1 == nil then
		return burst, 0, now
	end
	local whole: number, filled_at: number, carry: number = f1, f2 :: number, 0
	if f3 == nil then
		whole = f1 // den
		carry = f1 - whole * den
	else
		carry = f3
	end
	if now <= filled_at then
		return whole, carry, filled_at
	end
	-- Every den microseconds bring exactly num tokens; only the rest needs the long division. Where the first product is
	-- too large to be exact, it is also far more than a bucket holds.
	local elapsed = now - filled_at
	local rounds = elapsed // den
	whole += rounds * num
	if whole < burst then
		local gained, rest = multiply_divide(elapsed - rounds * den, num, den)
		whole += gained
		carry += rest
		if carry >= den then
			whole += 1
			carry -= den
		end
	end
	if whole >= burst then
		return burst, 0, now
	end
	return whole, carry, now
end

-- The state for whole + carry/den tokens. A bucket deep in debt after its burst shrank may need the wide layout although
-- the limit is narrow.
local function pack(limit: Limit, whole: number, carry: number, filled_at: number): (number, number, number?)
	local den = limit.den
	if limit.burst * den <= EXACT and whole * den >= -EXACT then
		return whole * den + carry, filled_at, nil
	end
	return whole, filled_at, carry
end

-- Microseconds until `tokens` - carry/den tokens have been gained, rounded up.
local function time_to_gain(limit: Limit, tokens: number, carry: number): number
	local num, den = limit.num, limit.den
	local missing = 0
	if carry > 0 then
		tokens -= 1
		missing = den - carry
	end
	local rounds = tokens // num
	local time, rest = multiply_divide(tokens - rounds * num, den, num)
	return rounds * den + time + math.ceil((rest + missing) / num)
end

local function check_wide(limit: Limit, now: number, cost: number, f1: number?, f2: number?, f3: number?)
	local whole, carry, filled_at = refill(limit, now, f1, f2, f3)
	if cost == 0 then
		return true, math.max(whole, 0), 0, f1, f2, f3
	end
	if cost <= whole then
		return true, whole - cost, 0, pack(limit, whole - cost, carry, filled_at)
	end
	if cost > limit.burst then
		return false, math.max(whole, 0), -1, f1, f2, f3
	end
	local stored_whole, stored_carry, stored_at = refill(limit, 0, f1, f2, f3)
	local ready_at = math.min(stored_at + time_to_gain(limit, cost - stored_whole, stored_carry), END_OF_TIME)
	return false, math.max(whole, 0), ready_at - now, f1, f2, f3
end

local function check(limit: Limit, now: number, cost: number, f1: number?, f2: number?, f3: number?)
	local den = limit.den
	local capacity = limit.burst * den
	if f3 ~= nil or capacity > EXACT then
		return check_wide(limit, now, cost, f1, f2, f3)
	end

	local level, filled_at = capacity, now
	if f1 ~= nil then
		level, filled_at = f1, f2 :: number
		if now > filled_at then
			-- A product above 2^53 is rounded, but then the bucket is full whatever it is.
			level += (now - filled_at) * limit.num
			if level > capacity then
				level = capacity
			end
			filled_at = now
		end
	end

	local wanted = cost * den
	if wanted <= level and cost > 0 then
		level -= wanted
		return true, level // den, 0, level, filled_at, nil
	end

	local remaining = if level > 0 then level // den else 0
	if cost == 0 then
		return true, remaining, 0, f1, f2, nil
	end
	if cost > limit.burst or f1 == nil then
		return false, remaining, -1, f1, f2, nil
	end
	-- Counted from the stored level, and up to the reading we were given: right too when that reading is an older one.
	local ready_at = (f2 :: number) + math.ceil((wanted - f1) / limit.num)
	if ready_at > END_OF_TIME then
		ready_at = END_OF_TIME
	end
	return false, remaining, ready_at - now, f1, f2, nil
end

local function full_at(limit: Limit, f1: number?, f2: number?, f3: number?): number
	if f1 == nil then
		return 0
	end
	local full: number
	if f3 == nil then
		full = (f2 :: number) + math.ceil((limit.burst * limit.den - f1) / limit.num)
	else
		full = (f2 :: number) + time_to_gain(limit, limit.burst - f1, f3)
	end
	return if full > END_OF_TIME then END_OF_TIME else full
end

-- Refund: never above full.
local function give(limit: Limit, now: number, amount: number, f1: number?, f2: number?, f3: number?)
	local whole, carry, filled_at = refill(limit, now, f1, f2, f3)
	whole += amount
	if whole >= limit.burst then
		whole, carry = limit.burst, 0
	end
	return pack(limit, whole, carry, filled_at)
end

-- Debt: down to -B, and no further down than that if a smaller burst has left it lower already.
local function take(limit: Limit, now: number, amount: number, f1: number?, f2: number?, f3: number?)
	local whole, carry, filled_at = refill(limit, now, f1, f2, f3)
	if whole - amount >= -limit.burst then
		whole -= amount
	elseif whole >= -limit.burst then
		whole, carry = -limit.burst, 0
	end
	return pack(limit, whole, carry, filled_at)
end

-- A rest of a token in the units of another limit. Rounded down: a token is never made of roundings.
local function convert(carry: number, from: Limit, to: Limit): number
	if from.den == to.den then
		return carry
	end
	local units = multiply_divide(carry, to.den, from.den)
	return units
end

-- A changed limit keeps what has been used, B - tokens, so the level moves by as much as the burst does.
local function resize(old: Limit, new: Limit, now: number, f1: number?, f2: number?, f3: number?)
	if f1 == nil then
		return nil, nil, nil
	end
	local whole, carry, filled_at = refill(old, now, f1, f2, f3)
	return pack(new, whole + new.burst - old.burst, convert(carry, old, new), filled_at)
end

-- Sub-bucket i of k: an equal share of the whole tokens, what is left over to the first ones; the rest of a token to
-- the very first.
local function split(limit: Limit, part: Limit, now: number, i: number, k: number, f1: number?, f2: number?, f3: number?)
	local whole, carry, filled_at = refill(limit, now, f1, f2, f3)
	local share = (whole + k - 1 - i) // k
	local rest = if i == 0 then convert(carry, limit, part) else 0
	if share >= part.burst then
		share, rest = part.burst, 0
	end
	return pack(part, share, rest, filled_at)
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
	local a_whole, a_carry, a_filled_at = refill(a, now, a1, a2, a3)
	local b_whole, b_carry, b_filled_at = refill(b, now, b1, b2, b3)
	local whole = a_whole + b_whole
	local carry = convert(a_carry, a, limit) + convert(b_carry, b, limit)
	if carry >= limit.den then
		whole += 1
		carry -= limit.den
	end
	if whole >= limit.burst then
		whole, carry = limit.burst, 0
	end
	return pack(limit, whole, carry, math.max(a_filled_at, b_filled_at))
end

return {
	version = 1,
	fields = { "level", "filled_at", "carry" },
	burst = "limit",
	check = check,
	full_at = full_at,
	give = give,
	take = take,
	resize = resize,
	split = split,
	merge = merge,
}
