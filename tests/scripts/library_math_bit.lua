-- The math and bit libraries.
-- keys:
-- args: <int -100000 100000> <int 0 31> <float -50 50>
local a, b, c = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
math.randomseed(a)
local function text(value)
  return string.format('%.9g', value)
end
return {
  bit.band(a, 255), bit.bor(a, b), bit.bxor(a, b), bit.bnot(a), bit.lshift(a, b), bit.rshift(a, b), bit.arshift(a, b), bit.rol(a, b),
  bit.ror(a, b), bit.bswap(a), bit.tobit(a * 65536), bit.tohex(a), bit.tohex(a, 4), bit.tohex(a, -8), text(math.sqrt(math.abs(c))),
  text(math.exp(c / 10)), text(math.log(math.abs(c) + 1)), text(math.log10(math.abs(c) + 1)), text(math.sin(c)), text(math.fmod(a, 7)),
  text(c % 3), text(math.modf(c)), math.floor(c), math.ceil(c), math.random(100), math.random(5, 10), text(math.random()), text(math.pow(2, b)),
  text(math.deg(c)), text(math.atan2(c, 2)), text(math.ldexp(c, 3)), text(math.frexp(c)), text(math.huge), text(math.pi), a % 7, -a % 7,
}
