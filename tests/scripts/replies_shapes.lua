-- What every kind of Lua value becomes.
-- keys:
-- args: <int 0 19> <float -5 5>
local number = tonumber(ARGV[2])
local shapes = {
  [0] = nil, [1] = false, [2] = true, [3] = number, [4] = ARGV[2], [5] = {}, [6] = { 1, nil, 3 }, [7] = { false, true, {} },
  [8] = { { { { number } } } }, [9] = { a = 1 }, [10] = { 1, 2, a = 3 }, [11] = 2 ^ 53, [12] = -2 ^ 63, [13] = 1e300,
  [14] = 0 / 0, [15] = function() end, [16] = { function() end, 1 }, [17] = { ok = 'fine', 1 }, [18] = { -0.9, 0.9, 1 / 0, -1 / 0 },
  [19] = { coroutine.create(function() end), '', '\r\n\0' },
}
return shapes[tonumber(ARGV[1])]
