//! `cjson.encode`

use std::ffi::c_int;

use mlua::ffi;

use super::{DEPTH_MAX, Invalid, JsonSettings, settings};
use crate::number::write_general;
use crate::output::Output;
use crate::stack::{Fail, Stack};

/// Values between two looks at the clock.
const TICK_VALUES: u32 = 1024;

/// Bytes of a string that are written between two looks at how many there are: each takes six at most.
const CHUNK_BYTES: usize = 16 * 1024;

pub(super) fn encode(stack: &Stack) -> Result<c_int, Fail> {
    if stack.top() != 1 {
        return Err(Fail::argument(1, "encode", "expected 1 argument"));
    }
    let mut encoder = Encoder {
        stack,
        settings: settings(stack),
        out: Output::new(stack),
        until_tick: TICK_VALUES,
    };
    encoder.value(0)?;
    encoder.out.finish(stack)?;
    Ok(1)
}

struct Encoder<'a> {
    stack: &'a Stack,
    settings: JsonSettings,
    out: Output,
    until_tick: u32,
}

impl Encoder<'_> {
    /// Writes the value on the top, and leaves it there.
    fn value(&mut self, depth: u32) -> Result<(), Fail> {
        self.tick()?;
        let stack = self.stack;
        match stack.kind(-1) {
            ffi::LUA_TSTRING => self.string(stack.string(-1).unwrap_or_default())?,
            ffi::LUA_TNUMBER => self.number()?,
            ffi::LUA_TBOOLEAN if stack.boolean(-1) => self.out.extend(b"true"),
            ffi::LUA_TBOOLEAN => self.out.extend(b"false"),
            ffi::LUA_TNIL => self.out.extend(b"null"),
            ffi::LUA_TLIGHTUSERDATA if stack.light(-1).is_null() => self.out.extend(b"null"),
            ffi::LUA_TTABLE => self.table(depth + 1)?,
            _ => return Err(refused(stack.kind_name(-1), "type not supported")),
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

    fn number(&mut self) -> Result<(), Fail> {
        let number = self.stack.number(-1).unwrap_or_default();
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refused => return Err(refused("number", "must not be NaN or Inf")),
                Invalid::Null => {
                    self.out.extend(b"null");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        // The sign of what is no number is not written.
        let number = if number.is_nan() { f64::NAN } else { number };
        write_general(self.out.bytes(), number, self.settings.precision as usize);
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Fail> {
        self.out.push(b'"');
        for chunk in text.chunks(CHUNK_BYTES) {
            self.out.admit(self.stack, chunk.len())?;
            self.chunk(chunk);
        }
        self.out.push(b'"');
        Ok(())
    }

    fn chunk(&mut self, text: &[u8]) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut written = 0;
        for (index, &byte) in text.iter().enumerate() {
            let short = match byte {
                b'"' | b'\\' | b'/' => byte,
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                8 => b'b',
                12 => b'f',
                0..32 | 127 => b'u',
                _ => continue,
            };
            self.out.extend(&text[written..index]);
            written = index + 1;
            self.out.extend(&[b'\\', short]);
            if short == b'u' {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                self.out.extend(&[b'0', b'0', high, low]);
            }
        }
        self.out.extend(&text[written..]);
    }

    fn table(&mut self, depth: u32) -> Result<(), Fail> {
        if depth > self.settings.encode_depth.min(DEPTH_MAX) || !self.stack.has_room(4) {
            return Err(Fail::text(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len()? {
            Some(len) if len > 0 => self.array(len, depth),
            _ => self.object(depth),
        }
    }

    /// The largest index, if the table is an array.
    fn array_len(&mut self) -> Result<Option<i32>, Fail> {
        let stack = self.stack;
        let Some((max, items)) = stack.array_keys(|| self.tick())? else {
            return Ok(None);
        };
        let JsonSettings {
            sparse_ratio: ratio,
            sparse_safe: safe,
            ..
        } = self.settings;
        let is_sparse = ratio > 0 && max > items as f64 * f64::from(ratio) && max > f64::from(safe);
        // Beyond the range of an array's index, an object in any case.
        if !is_sparse && max <= f64::from(i32::MAX) {
            return Ok(Some(max as i32));
        }
        if !self.settings.sparse_to_object {
            return Err(refused("table", "excessively sparse array"));
        }
        Ok(None)
    }

    fn array(&mut self, len: i32, depth: u32) -> Result<(), Fail> {
        self.out.push(b'[');
        for item in 1..=len {
            if item > 1 {
                self.out.push(b',');
            }
            self.stack.get_item(-1, item);
            self.value(depth)?;
            self.stack.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: u32) -> Result<(), Fail> {
        let stack = self.stack;
        self.out.push(b'{');
        let mut is_first = true;
        stack.push_nil();
        while stack.next_pair(-2) {
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            match stack.kind(-2) {
                ffi::LUA_TNUMBER => {
                    self.out.push(b'"');
                    stack.push_copy(-2);
                    self.number()?;
                    stack.pop(1);
                    self.out.push(b'"');
                }
                ffi::LUA_TSTRING => self.string(stack.string(-2).unwrap_or_default())?,
                _ => {
                    return Err(refused(stack.kind_name(-2), "table key must be a number or string"));
                }
            }
            self.out.push(b':');
            self.value(depth)?;
            stack.pop(1);
        }
        self.out.push(b'}');
        Ok(())
    }
}

fn refused(kind: &str, why: &str) -> Fail {
    Fail::text(format!("Cannot serialise {kind}: {why}"))
}
