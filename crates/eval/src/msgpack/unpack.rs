//! `cmsgpack.unpack`, `unpack_one` and `unpack_limit`

use std::ffi::c_int;

use crate::number::truncate;
use crate::stack::{Fail, Stack};

/// Arrays and maps in each other: our own stack is not Lua's.
const DEPTH_MAX: u32 = 1_000;

/// Values between two looks at the clock.
const TICK_VALUES: u32 = 1024;

/// All values of the text.
pub(super) fn unpack(stack: &Stack) -> Result<c_int, Fail> {
    unpack_from(stack, 0, 0, false)
}

/// `unpack_one(text, offset)`: the offset of the next value, or -1, and the value.
pub(super) fn unpack_one(stack: &Stack) -> Result<c_int, Fail> {
    let offset = truncate(stack.number_or(2, "unpack_one", 0.0)?);
    stack.set_top(1);
    unpack_from(stack, 1, offset, true)
}

/// `unpack_limit(text, limit, offset)`: the offset of the next value, or -1, and up to `limit` values.
pub(super) fn unpack_limit(stack: &Stack) -> Result<c_int, Fail> {
    let limit = truncate(stack.check_number(2, "unpack_limit")?);
    let offset = truncate(stack.number_or(3, "unpack_limit", 0.0)?);
    stack.set_top(1);
    unpack_from(stack, limit, offset, true)
}

/// Limit 0: all.
fn unpack_from(stack: &Stack, limit: i64, offset: i64, is_offset_returned: bool) -> Result<c_int, Fail> {
    let text = stack.check_bytes(1, "unpack")?;
    if offset < 0 || limit < 0 {
        return Err(Fail::text(format!(
            "Invalid request to unpack with offset of {} and limit of {}.",
            // As Redis shows them.
            offset as i32,
            text.len()
        )));
    }
    if offset > text.len() as i64 {
        return Err(Fail::text(format!(
            "Start offset {} greater than input length {}.",
            offset as i32,
            text.len()
        )));
    }
    if is_offset_returned {
        stack.push_nil();
    }
    let mut unpacker = Unpacker {
        stack,
        text,
        rest: &text[offset as usize..],
        until_tick: TICK_VALUES,
    };
    let mut results = 0;
    while !unpacker.rest.is_empty() && (limit == 0 || results < limit) {
        stack.require(4);
        unpacker.value(0)?;
        results += 1;
    }
    if !is_offset_returned {
        return Ok(results as c_int);
    }
    let next = if unpacker.rest.is_empty() {
        -1.0
    } else {
        unpacker.offset() as f64
    };
    stack.push_number(next);
    stack.replace(-(results as c_int) - 2);
    Ok(results as c_int + 1)
}

struct Unpacker<'a> {
    stack: &'a Stack,
    text: &'a [u8],
    rest: &'a [u8],
    until_tick: u32,
}

fn bad_format() -> Fail {
    Fail::text("Bad data format in input.")
}

impl<'a> Unpacker<'a> {
    fn offset(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Fail> {
        if bytes > self.rest.len() {
            return Err(Fail::text("Missing bytes in input."));
        }
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        Ok(taken)
    }

    fn unsigned(&mut self, bytes: usize) -> Result<u64, Fail> {
        let bytes = self.take(bytes)?;
        Ok(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn signed(&mut self, bytes: usize) -> Result<i64, Fail> {
        let unused = 64 - 8 * bytes;
        Ok((self.unsigned(bytes)? << unused).cast_signed() >> unused)
    }

    fn value(&mut self, depth: u32) -> Result<(), Fail> {
        self.until_tick -= 1;
        if self.until_tick == 0 {
            self.until_tick = TICK_VALUES;
            self.stack.shared().tick()?;
        }
        let stack = self.stack;
        let marker = self.unsigned(1)? as u8;
        match marker {
            0x00..=0x7f => stack.push_number(f64::from(marker)),
            0xe0..=0xff => stack.push_number(f64::from(marker.cast_signed())),
            0xcc..=0xcf => {
                let value = self.unsigned(1 << (marker - 0xcc))?;
                stack.push_number(value as f64);
            }
            0xd0..=0xd3 => {
                let value = self.signed(1 << (marker - 0xd0))?;
                stack.push_number(value as f64);
            }
            0xc0 => stack.push_nil(),
            0xc2 | 0xc3 => stack.push_boolean(marker == 0xc3),
            0xca => {
                let bits = self.unsigned(4)? as u32;
                stack.push_number(f64::from(f32::from_bits(bits)));
            }
            0xcb => {
                let bits = self.unsigned(8)?;
                stack.push_number(f64::from_bits(bits));
            }
            0xa0..=0xbf => self.string(usize::from(marker & 31))?,
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (marker - 0xd9))?;
                self.string(len as usize)?;
            }
            0x90..=0x9f => self.array(usize::from(marker & 15), depth)?,
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (marker - 0xdc))?;
                self.array(len as usize, depth)?;
            }
            0x80..=0x8f => self.map(usize::from(marker & 15), depth)?,
            0xde | 0xdf => {
                let pairs = self.unsigned(2 << (marker - 0xde))?;
                self.map(pairs as usize, depth)?;
            }
            _ => return Err(bad_format()),
        }
        Ok(())
    }

    fn string(&mut self, len: usize) -> Result<(), Fail> {
        let bytes = self.take(len)?;
        self.stack.push_bytes(bytes);
        Ok(())
    }

    fn descend(&self, depth: u32) -> Result<(), Fail> {
        if depth >= DEPTH_MAX {
            return Err(bad_format());
        }
        self.stack.require(6);
        Ok(())
    }

    fn array(&mut self, len: usize, depth: u32) -> Result<(), Fail> {
        self.descend(depth)?;
        // The length may lie; the table grows with what is there.
        self.stack.new_table(len.min(self.rest.len()), 0);
        for item in 1..=len {
            self.value(depth + 1)?;
            self.stack.set_item(-2, item as c_int);
        }
        Ok(())
    }

    fn map(&mut self, pairs: usize, depth: u32) -> Result<(), Fail> {
        self.descend(depth)?;
        self.stack.new_table(0, 0);
        for _ in 0..pairs {
            self.value(depth + 1)?;
            self.value(depth + 1)?;
            let is_key_bad = self.stack.kind(-2) == mlua::ffi::LUA_TNIL
                || self.stack.kind(-2) == mlua::ffi::LUA_TNUMBER && self.stack.number(-2).is_some_and(f64::is_nan);
            if is_key_bad {
                return Err(bad_format());
            }
            self.stack.set_pair(-3);
        }
        Ok(())
    }
}
