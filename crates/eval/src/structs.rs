//! `struct`: numbers and strings as C lays them out (lua-struct 0.2, as Redis has it in `deps/lua/src/lua_struct.c`).
//!
//! A format is a list of options: `<` `>` little and big endian; `!n` alignment; `x` a zero byte; `b` `B` `h` `H`
//! `l` `L` `T` integers of 1, 2, 8 and 8 bytes; `in` `In` integers of n bytes; `f` `d` floats; `s` a string that ends with
//! a zero; `cn` n bytes, with n = 0 all of the string, or as many as the number read before says. Native is x86-64.

use std::ffi::{CStr, c_int};

use crate::number::truncate_unsigned;
use crate::output::Output;
use crate::stack::{Body, Fail, Stack};

const INTEGER_BYTES_MAX: usize = 32;

const FUNCTIONS: [(&CStr, Body); 3] = [(c"pack", pack), (c"unpack", unpack), (c"size", size)];

/// Pushes the table.
pub(crate) fn push_struct(stack: &Stack) {
    stack.new_table(0, FUNCTIONS.len());
    for (name, function) in FUNCTIONS {
        stack.push_function(function, name, 0);
        stack.set_field(-2, name);
    }
}

/// Reads a format.
struct Format<'a> {
    rest: &'a [u8],
    function: &'static str,
    is_big: bool,
    align: usize,
}

/// One option that takes room, or none of its own.
struct Item {
    option: u8,
    bytes: usize,
}

impl<'a> Format<'a> {
    fn new(rest: &'a [u8], function: &'static str) -> Self {
        Self {
            rest,
            function,
            is_big: false,
            align: 1,
        }
    }

    /// The next option that is no control.
    fn next(&mut self) -> Result<Option<Item>, Fail> {
        while let Some((&option, rest)) = self.rest.split_first() {
            self.rest = rest;
            let bytes = match option {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b's' => 0,
                b'c' => self.number(1)?,
                b'i' | b'I' => {
                    let bytes = self.number(4)?;
                    if bytes > INTEGER_BYTES_MAX {
                        return Err(Fail::text(format!(
                            "integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}"
                        )));
                    }
                    bytes
                }
                control => {
                    self.control(control)?;
                    continue;
                }
            };
            return Ok(Some(Item { option, bytes }));
        }
        Ok(None)
    }

    fn control(&mut self, option: u8) -> Result<(), Fail> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(8)?;
                if !align.is_power_of_two() {
                    return Err(Fail::text(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            other => {
                let message = format!("invalid format option '{}'", char::from(other));
                return Err(Fail::argument(1, self.function, &message));
            }
        }
        Ok(())
    }

    fn number(&mut self, default: usize) -> Result<usize, Fail> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        text.iter()
            .try_fold(0_i32, |number, digit| {
                number.checked_mul(10)?.checked_add(i32::from(digit - b'0'))
            })
            .map(|number| number as usize)
            .ok_or_else(|| Fail::text("integral size overflow"))
    }

    /// Bytes between `position` and where the item begins.
    fn padding(&self, item: &Item, position: usize) -> usize {
        if item.bytes == 0 || item.option == b'c' {
            return 0;
        }
        let unit = item.bytes.min(self.align);
        (unit - (position & (unit - 1))) & (unit - 1)
    }
}

/// Looks at the clock every so many items of a format.
fn count(stack: &Stack, items: &mut u32) -> Result<(), Fail> {
    const TICK_ITEMS: u32 = 4096;
    *items = items.wrapping_add(1);
    if items.is_multiple_of(TICK_ITEMS) {
        stack.shared().tick()?;
    }
    Ok(())
}

fn pack(stack: &Stack) -> Result<c_int, Fail> {
    let mut format = Format::new(stack.check_bytes(1, "pack")?, "pack");
    let mut output = Output::new(stack);
    let mut argument = 2;
    let mut items = 0;
    while let Some(item) = format.next()? {
        let out = output.bytes();
        out.resize(out.len() + format.padding(&item, out.len()), 0);
        match item.option {
            b'x' => out.push(0),
            b'f' | b'd' => {
                let number = stack.check_number(argument, "pack")?;
                argument += 1;
                let mut bytes = number.to_le_bytes().to_vec();
                if item.option == b'f' {
                    bytes = (number as f32).to_le_bytes().to_vec();
                }
                if format.is_big {
                    bytes.reverse();
                }
                out.extend_from_slice(&bytes);
            }
            b'c' | b's' => {
                let text = stack.check_bytes(argument, "pack")?;
                argument += 1;
                let bytes = if item.bytes == 0 { text.len() } else { item.bytes };
                let Some(text) = text.get(..bytes) else {
                    return Err(Fail::argument(argument, "pack", "string too short"));
                };
                output.admit(stack, text.len())?;
                output.extend(text);
                if item.option == b's' {
                    output.push(0);
                }
            }
            _ => {
                let number = stack.check_number(argument, "pack")?;
                argument += 1;
                write_integer(out, number, item.bytes, format.is_big);
            }
        }
        count(stack, &mut items)?;
        output.check(stack)?;
    }
    output.finish(stack)?;
    Ok(1)
}

/// The lowest bytes of the number; beyond eight, zeros.
fn write_integer(out: &mut Vec<u8>, number: f64, bytes: usize, is_big: bool) {
    let value = truncate_unsigned(number);
    let start = out.len();
    let low = value.to_le_bytes();
    out.extend((0..bytes).map(|index| low.get(index).copied().unwrap_or(0)));
    if is_big {
        out[start..].reverse();
    }
}

fn unpack(stack: &Stack) -> Result<c_int, Fail> {
    let mut format = Format::new(stack.check_bytes(1, "unpack")?, "unpack");
    let data = stack.check_bytes(2, "unpack")?;
    let init = stack.number_or(3, "unpack", 1.0)?;
    if init as i64 == 0 {
        return Err(Fail::argument(3, "unpack", "offset must be 1 or greater"));
    }
    let too_short = || Fail::argument(2, "unpack", "data string too short");
    let mut position = usize::try_from(init as i64 - 1).map_err(|_| too_short())?;
    let (mut results, mut items) = (0, 0);
    while let Some(item) = format.next()? {
        position = position.saturating_add(format.padding(&item, position));
        count(stack, &mut items)?;
        let taken = |bytes: usize| data.get(position..position.saturating_add(bytes)).ok_or_else(too_short);
        let mut bytes = item.bytes;
        let field = taken(bytes)?;
        stack.require(4);
        match item.option {
            b'x' => {
                position += 1;
                continue;
            }
            b'f' | b'd' => stack.push_number(read_float(field, format.is_big)),
            b'c' if bytes == 0 => {
                let count = if results == 0 { None } else { stack.number(-1) };
                let Some(count) = count else {
                    return Err(Fail::text("format 'c0' needs a previous size"));
                };
                stack.pop(1);
                results -= 1;
                bytes = if count >= 0.0 { count as usize } else { usize::MAX };
                stack.push_bytes(taken(bytes)?);
            }
            b'c' => stack.push_bytes(field),
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let Some(end) = memchr::memchr(0, rest) else {
                    return Err(Fail::text("unfinished string in data"));
                };
                stack.push_bytes(&rest[..end]);
                bytes = end + 1;
            }
            option => stack.push_number(read_integer(field, option.is_ascii_lowercase(), format.is_big)),
        }
        results += 1;
        position += bytes;
    }
    stack.require(1);
    stack.push_number((position + 1) as f64);
    Ok(results + 1)
}

fn read_float(field: &[u8], is_big: bool) -> f64 {
    let mut bytes = [0; 8];
    let (taken, _) = bytes.split_at_mut(field.len());
    taken.copy_from_slice(field);
    if is_big {
        taken.reverse();
    }
    if field.len() == 4 {
        f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    } else {
        f64::from_le_bytes(bytes)
    }
}

/// The last eight bytes count.
fn read_integer(field: &[u8], is_signed: bool, is_big: bool) -> f64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if is_big {
        field.iter().fold(0, add)
    } else {
        field.iter().rev().fold(0, add)
    };
    if !is_signed {
        return value as f64;
    }
    // `T` is a size, and upper case; a field of no bytes is 0.
    let unused = 64_usize.saturating_sub(8 * field.len()).min(63);
    ((value << unused).cast_signed() >> unused) as f64
}

fn size(stack: &Stack) -> Result<c_int, Fail> {
    let mut format = Format::new(stack.check_bytes(1, "size")?, "size");
    let (mut position, mut items) = (0_usize, 0);
    while let Some(item) = format.next()? {
        count(stack, &mut items)?;
        position = position.saturating_add(format.padding(&item, position));
        match (item.option, item.bytes) {
            (b's', _) => return Err(Fail::argument(1, "size", "option 's' has no fixed size")),
            (b'c', 0) => return Err(Fail::argument(1, "size", "option 'c0' has no fixed size")),
            (_, bytes) => position = position.saturating_add(bytes),
        }
    }
    stack.push_number(position as f64);
    Ok(1)
}
