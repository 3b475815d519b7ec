//! `cmsgpack.pack`

use std::ffi::c_int;

use mlua::ffi;

use crate::output::Output;
use crate::stack::{Fail, Stack};

/// Tables in tables; what is deeper becomes nil.
const DEPTH_MAX: u32 = 16;

/// Values between two looks at the clock.
const TICK_VALUES: u32 = 1024;

/// Packs its arguments, one after the other.
pub(super) fn pack(stack: &Stack) -> Result<c_int, Fail> {
    let count = stack.top();
    if count == 0 {
        return Err(Fail::argument(0, "pack", "MessagePack pack needs input."));
    }
    let mut packer = Packer {
        stack,
        out: Output::new(stack),
        until_tick: TICK_VALUES,
    };
    for index in 1..=count {
        stack.require(2);
        stack.push_copy(index);
        packer.value(0)?;
        stack.pop(1);
    }
    packer.out.finish(stack)?;
    Ok(1)
}

struct Packer<'a> {
    stack: &'a Stack,
    out: Output,
    until_tick: u32,
}

impl Packer<'_> {
    /// Writes the value on the top, and leaves it there.
    fn value(&mut self, depth: u32) -> Result<(), Fail> {
        self.tick()?;
        let stack = self.stack;
        match stack.kind(-1) {
            ffi::LUA_TSTRING => self.string(stack.string(-1).unwrap_or_default())?,
            ffi::LUA_TBOOLEAN => self.out.push(if stack.boolean(-1) { 0xc3 } else { 0xc2 }),
            ffi::LUA_TNUMBER => self.number(stack.number(-1).unwrap_or_default()),
            ffi::LUA_TTABLE if depth < DEPTH_MAX => {
                stack.require(4);
                match self.array_len()? {
                    Some(len) => self.array(len, depth)?,
                    None => self.map(depth)?,
                }
            }
            _ => self.out.push(0xc0),
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Fail> {
        self.until_tick -= 1;
        if self.until_tick == 0 {
            self.until_tick = TICK_VALUES;
            self.stack.shared().tick()?;
        }
        self.out.check(self.stack)
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Fail> {
        self.out.admit(self.stack, text.len())?;
        match text.len() {
            len @ 0..32 => self.out.push(0xa0 | len as u8),
            len @ 32..=0xff => self.out.extend(&[0xd9, len as u8]),
            len => self.length(len, 0xda),
        }
        self.out.extend(text);
        Ok(())
    }

    /// A length of two or of four bytes; `marker` is that of two.
    fn length(&mut self, len: usize, marker: u8) {
        if let Ok(len) = u16::try_from(len) {
            self.out.push(marker);
            self.out.extend(&len.to_be_bytes());
        } else {
            self.out.push(marker + 1);
            self.out.extend(&(len as u32).to_be_bytes());
        }
    }

    fn number(&mut self, number: f64) {
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        let is_integer = number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number);
        if is_integer {
            self.integer(number as i64);
        } else if f64::from(number as f32) == number {
            self.out.push(0xca);
            self.out.extend(&(number as f32).to_be_bytes());
        } else {
            self.out.push(0xcb);
            self.out.extend(&number.to_be_bytes());
        }
    }

    /// In as few bytes as it takes.
    fn integer(&mut self, value: i64) {
        let (marker, bytes) = match value {
            -32..=127 => (None, 1),
            128..=0xff => (Some(0xcc), 1),
            0x100..=0xffff => (Some(0xcd), 2),
            0x1_0000..=0xffff_ffff => (Some(0xce), 4),
            0x1_0000_0000.. => (Some(0xcf), 8),
            -0x80..-32 => (Some(0xd0), 1),
            -0x8000..-0x80 => (Some(0xd1), 2),
            -0x8000_0000..-0x8000 => (Some(0xd2), 4),
            ..-0x8000_0000 => (Some(0xd3), 8),
        };
        self.out.bytes().extend(marker);
        self.out.extend(&value.to_be_bytes()[8 - bytes..]);
    }

    /// The length, if the keys are 1 to it.
    fn array_len(&mut self) -> Result<Option<usize>, Fail> {
        let stack = self.stack;
        let Some((max, items)) = stack.array_keys(|| self.tick())? else {
            return Ok(None);
        };
        Ok((max == items as f64).then_some(items))
    }

    fn array(&mut self, len: usize, depth: u32) -> Result<(), Fail> {
        match len {
            0..16 => self.out.push(0x90 | len as u8),
            _ => self.length(len, 0xdc),
        }
        for item in 1..=len {
            self.stack.get_item(-1, item as c_int);
            self.value(depth + 1)?;
            self.stack.pop(1);
        }
        Ok(())
    }

    fn map(&mut self, depth: u32) -> Result<(), Fail> {
        let stack = self.stack;
        let mut pairs = 0;
        stack.push_nil();
        while stack.next_pair(-2) {
            stack.pop(1);
            self.tick()?;
            pairs += 1;
        }
        match pairs {
            0..16 => self.out.push(0x80 | pairs as u8),
            _ => self.length(pairs, 0xde),
        }
        stack.push_nil();
        while stack.next_pair(-2) {
            stack.push_copy(-2);
            self.value(depth + 1)?;
            stack.pop(1);
            self.value(depth + 1)?;
            stack.pop(1);
        }
        Ok(())
    }
}
