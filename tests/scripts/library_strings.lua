-- The string library with patterns, as scripts use it.
-- keys: <key str>
-- args: <of a:b:c|key=value|  padded  |1-2-3|2024-01-02T03:04:05|x%d|> <of :|=|-|%s|.|%-> <int -4 8>
-- keys: <key str>
-- args: <bytes> <of a|%d|.> <int -4 8>
local text, separator, at = ARGV[1], ARGV[2], tonumber(ARGV[3])
local parts = {}
for part in string.gmatch(text, '([^' .. separator .. ']+)') do
  parts[#parts + 1] = part
end
local swapped, count = string.gsub(text, '(%w+)(%W*)', '%2%1')
local upper = text:gsub('%l', function(letter) if letter ~= 'b' then return letter:upper() end end)
local mapped = text:gsub('%w', { a = 'A', b = false, ['1'] = 'one' })
return {
  parts, swapped, count, upper, mapped, text:sub(at), text:sub(at, -2), text:find(separator, 1, true) or 0, text:match('^%s*(.-)%s*$'),
  text:rep(2, ','), text:reverse(), text:byte(1) or -1, (text:upper():lower()), text:find('(%d+)') or false, #text, text:match('()') or 0,
  { text:match('(%d+)-(%d+)') }, { text:find('b()') }, string.char(65, 66), text:len() == #text,
}
