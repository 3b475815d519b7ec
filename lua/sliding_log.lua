--!strict
--!native
--!optimize 2

-- sliding_log: the exact log. The time of every admitted token is kept for W; a check of cost c is allowed when at most
-- L - c tokens are younger than W. Never more than L in any W. L may be at most 10,000, since the state grows with it.
--
-- State, one buffer:
--   0   f64  latest: the time of the latest change, in microseconds; an older now counts as this
--   8   u16  extra: further tokens that expire together with the first cell (0 unless in debt)
--   10  cells, one a token, oldest first: the low bits of its time. Every cell is younger than W as of `latest`, so 4 bytes
--       say which time is meant when W <= 2^32 us (71 min), and 6 bytes for any other W.
-- A length of 0 means nothing used.
--
-- There are never more than L cells, in debt either: tokens beyond the newest L are counted in `extra`, as old as the
-- first of those L. None can be admitted before that one has expired, so no decision is changed by this.
--
-- Cells are in order of time: a search by halves finds the expired ones. They are removed when the log next changes.

type Limit = { limit: number, window: number, burst: number, num: number, den: number }

local LIMIT_MAX = 10000
local HEADER = 10
local END_OF_TIME = 9007199254740992 -- 2^53 us: no clock reading reaches it, so it stands for every later time

-- a * b / d as quotient, exact though a * b is far beyond 2^53: long division as on paper, seven bits of b at a time.
-- Needs 0 <= a < d < 2^45 and 0 <= b < 2^49, so that no step exceeds 255 * 2^45 < 2^53.
local function multiply_divide(a: number, b: number, d: number): number
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
	return quotient
end

-- Bytes a cell.
local function cell_bytes(window: number): number
	return if window <= 4294967296 then 4 else 6
end

local function max_bytes(limit: Limit): number
	assert(limit.limit <= LIMIT_MAX, "a limit above max_limit")
	return HEADER + limit.limit * cell_bytes(limit.window)
end

-- Which time the cell at index `i` means.
local function read(buf: buffer, i: number, bytes: number): number
	local latest = buffer.readf64(buf, 0)
	local low = buffer.readu32(buf, HEADER + i * bytes)
	local span = 4294967296 -- 2^32
	if bytes == 6 then
		low += buffer.readu16(buf, HEADER + i * 6 + 4) * 4294967296
		span = 281474976710656 -- 2^48
	end
	local age = latest % span - low
	if age < 0 then
		age += span
	end
	return latest - age
end

local function write(buf: buffer, i: number, bytes: number, time: number): ()
	local high = time // 4294967296
	buffer.writeu32(buf, HEADER + i * bytes, time - high * 4294967296)
	if bytes == 6 then
		buffer.writeu16(buf, HEADER + i * 6 + 4, high % 65536)
	end
end

local function cell_count(len: number, bytes: number): number
	return if len > 0 then (len - HEADER) // bytes else 0
end

-- Index of the first of n cells whose time is after `oldest`; n when none is.
local function first_alive(buf: buffer, n: number, bytes: number, oldest: number): number
	local low, high = 0, n
	if n > 0 and read(buf, 0, bytes) > oldest then
		return 0
	end
	while low < high do
		local middle = (low + high) // 2
		if read(buf, middle, bytes) > oldest then
			high = middle
		else
			low = middle + 1
		end
	end
	return low
end

-- The log as of `now`: time, index of the first cell that counts, number of cells, extra.
local function look(limit: Limit, now: number, buf: buffer, len: number): (number, number, number, number)
	if len == 0 then
		return now, 0, 0, 0
	end
	local bytes = cell_bytes(limit.window)
	local n = cell_count(len, bytes)
	local latest = buffer.readf64(buf, 0)
	local time = if now > latest then now else latest
	local first = first_alive(buf, n, bytes, time - limit.window)
	return time, first, n, if first == 0 then buffer.readu16(buf, 8) else 0
end

-- Writes the log anew: without the first `gone` of n cells, with `amount` tokens at `time`. More than L cells are folded
-- into `extra`, oldest first. Returns the length.
local function rewrite(
	limit: Limit,
	buf: buffer,
	time: number,
	gone: number,
	n: number,
	extra: number,
	amount: number
): number
	local bytes = cell_bytes(limit.window)
	local kept = n - gone
	local surplus = kept + amount - limit.limit
	if surplus > 0 then
		local folded = math.min(surplus, kept)
		gone += folded
		kept -= folded
		amount = limit.limit - kept
		extra += surplus
	end
	if kept + amount == 0 then
		return 0
	end
	if gone > 0 and kept > 0 then
		buffer.copy(buf, HEADER, buf, HEADER + gone * bytes, kept * bytes)
	end
	buffer.writef64(buf, 0, time)
	buffer.writeu16(buf, 8, extra)
	for i = kept, kept + amount - 1 do
		write(buf, i, bytes, time)
	end
	return HEADER + (kept + amount) * bytes
end

local function check(limit: Limit, now: number, cost: number, buf: buffer, len: number)
	local time, first, n, extra = look(limit, now, buf, len)
	local used = n - first + extra
	local left = limit.limit - used
	if cost <= left and cost > 0 then
		return true, left - cost, 0, rewrite(limit, buf, time, first, n, extra, cost)
	end
	if left < 0 then
		left = 0
	end
	if cost == 0 then
		return true, left, 0, len
	end
	if cost > limit.limit then
		return false, left, -1, len
	end
	-- So many of the oldest tokens must expire; `extra` of them do so with the first cell.
	local surplus = used + cost - limit.limit
	local last = first + math.max(surplus - extra - 1, 0)
	local ready_at = math.min(read(buf, last, cell_bytes(limit.window)) + limit.window, END_OF_TIME)
	return false, left, ready_at - now, len
end

local function full_at(limit: Limit, buf: buffer, len: number): number
	if len == 0 then
		return 0
	end
	local bytes = cell_bytes(limit.window)
	return math.min(read(buf, cell_count(len, bytes) - 1, bytes) + limit.window, END_OF_TIME)
end

-- Refund: the latest tokens are forgotten first.
local function give(limit: Limit, now: number, amount: number, buf: buffer, len: number): number
	local time, first, n, extra = look(limit, now, buf, len)
	local used = n - first + extra
	if amount >= used then
		return 0
	end
	if amount < n - first then
		return rewrite(limit, buf, time, first, n - amount, extra, 0)
	end
	return rewrite(limit, buf, time, first, first + 1, used - amount - 1, 0)
end

-- Debt: down to -L, that is 2L used, and no further than that if a smaller limit has left more already.
local function take(limit: Limit, now: number, amount: number, buf: buffer, len: number): number
	local time, first, n, extra = look(limit, now, buf, len)
	local used = n - first + extra
	local taken = math.min(amount, math.max(2 * limit.limit - used, 0))
	if taken == 0 then
		return len
	end
	return rewrite(limit, buf, time, first, n, extra, taken)
end

-- A changed limit keeps what has been used. When the length of the window changes, every token has used up the same share
-- of it as before (ages rounded down), so that changing it to and fro never lets one expire early.
local function resize(old: Limit, new: Limit, now: number, buf: buffer, len: number): number
	local time, first, n, extra = look(old, now, buf, len)
	if n == first then
		return 0
	end
	if new.window ~= old.window then
		local from, to = cell_bytes(old.window), cell_bytes(new.window)
		local copy = buffer.create(len)
		buffer.copy(copy, 0, buf, 0, len)
		buffer.writef64(buf, 0, time)
		-- Only the newest cells that the new limit can hold; the others count in `extra`.
		local skipped = math.max(n - first - new.limit, 0)
		first += skipped
		extra += skipped
		for i = first, n - 1 do
			local age = time - read(copy, i, from)
			write(buf, i - first, to, time - multiply_divide(age, new.window, old.window))
		end
		first, n = 0, n - first
	end
	return rewrite(new, buf, time, first, n, extra, 0)
end

-- Sub-bucket i of k. Think of the limit as places 0 to L-1, of which place p belongs to sub-bucket p mod k; tokens fill them
-- from the top, oldest first. So what is left is shared equally, and what is left over goes to the first ones.
local function split(limit: Limit, part: Limit, now: number, i: number, k: number, buf: buffer, len: number): number
	local time, first, n, extra = look(limit, now, buf, len)
	local bytes = cell_bytes(limit.window)
	local mine = (limit.limit - 1 - i) % k -- tokens mine, mine + k, mine + 2k, ... are those of sub-bucket i
	local token = extra -- the token of the first cell; those before it have its time
	local kept, part_extra = 0, 0
	if first < n and token >= mine then
		kept = 1
		part_extra = (token - mine) // k
		write(buf, 0, bytes, read(buf, first, bytes))
	end
	for cell = first + 1, n - 1 do
		token += 1
		if token % k == mine then
			write(buf, kept, bytes, read(buf, cell, bytes))
			kept += 1
		end
	end
	-- A part that is smaller than an equal share has used the difference as well.
	local share = (limit.limit + k - 1 - i) // k
	local missing = math.max(part.limit - share, 0)
	return rewrite(part, buf, time, 0, kept, part_extra, missing)
end

-- Both logs in one, in order of time; the result is in the first buffer.
local function merge(
	limit: Limit,
	a: Limit,
	b: Limit,
	now: number,
	a_buf: buffer,
	a_len: number,
	b_buf: buffer,
	b_len: number
): number
	local a_time, i, a_n, a_extra = look(a, now, a_buf, a_len)
	local b_time, j, b_n, b_extra = look(b, now, b_buf, b_len)
	local time = math.max(a_time, b_time)
	local bytes = cell_bytes(limit.window)
	local copy = buffer.create(a_len)
	buffer.copy(copy, 0, a_buf, 0, a_len)

	-- What does not fit into L cells, and whatever is older than a token with extras, is folded into `extra`.
	local folded = a_n - i + b_n - j - limit.limit
	local not_before = -math.huge
	if a_extra > 0 then
		not_before = read(copy, i, bytes)
	end
	if b_extra > 0 then
		not_before = math.max(not_before, read(b_buf, j, bytes))
	end
	local extra = a_extra + b_extra
	local n = 0
	while i < a_n or j < b_n do
		local token: number
		if j >= b_n or (i < a_n and read(copy, i, bytes) <= read(b_buf, j, bytes)) then
			token = read(copy, i, bytes)
			i += 1
		else
			token = read(b_buf, j, bytes)
			j += 1
		end
		if folded > 0 or token < not_before then
			folded -= 1
			extra += 1
		else
			write(a_buf, n, bytes, token)
			n += 1
		end
	end
	-- Where the two limits together are less than the new one, the difference counts as used.
	local missing = math.max(limit.limit - a.limit - b.limit, 0)
	return rewrite(limit, a_buf, time, 0, n, extra, missing)
end

return {
	version = 1,
	fields = "buffer",
	burst = "none",
	max_limit = LIMIT_MAX,
	max_bytes = max_bytes,
	check = check,
	full_at = full_at,
	give = give,
	take = take,
	resize = resize,
	split = split,
	merge = merge,
}
