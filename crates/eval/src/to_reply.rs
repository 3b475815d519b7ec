//! What a script returned as a reply.
//!
//! The rules are those of Redis 7.2 (`src/script_lua.c`, `luaReplyToRedisReply`): numbers are truncated, false and nil
//! are null, an array ends at its first nil, and tables with one of certain fields are other types. All access is
//! without metamethods. A loop instead of recursion, since a table may contain itself.

use std::ffi::c_int;
use std::time::Duration;

use mlua::ffi;

use crate::host::Resp;
use crate::number::truncate;
use crate::shared::thread_time;
use crate::stack::Stack;
use crate::tape::ReplySink;

/// Tables in tables that are converted: as far as Redis gets, whose Lua stack has room for 8,000 values (measured).
const DEPTH_MAX: usize = 7_995;

/// Values of one reply.
const VALUES_MAX: usize = 1 << 20;

/// Containers between two looks at the clock: a table of a million empty places costs a few milliseconds.
const TICK_CONTAINERS: usize = 16;

/// What a reply may hold; beyond that it is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyBounds {
    pub(crate) bytes: usize,
    /// Time of this thread.
    pub(crate) time: Duration,
}

/// The reply has more than [`VALUES_MAX`] values, more bytes than the bound or takes longer: a table that contains itself
/// twice would never end.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// A table that is being written; it is on the stack as long.
enum Open {
    Array {
        next: c_int,
        left: usize,
    },
    /// The key of the pair last written is on the stack above the table; the value too while it is due.
    Map {
        is_value_due: bool,
    },
    Set,
}

/// Writes the value at the top of the stack and pops it.
pub(crate) fn write_reply(
    stack: &Stack,
    resp: Resp,
    bounds: ReplyBounds,
    sink: &mut dyn ReplySink,
) -> Result<(), TooLarge> {
    if stack.is_table(-1) && write_row(stack, bounds, sink) {
        return Ok(());
    }
    let mut writer = Writer {
        stack,
        resp,
        sink,
        open: Vec::new(),
        values_left: VALUES_MAX,
        bytes_left: bounds.bytes,
        containers: 0,
        time: bounds.time,
        end: None,
    };
    writer.write_top()?;
    while let Some(open) = writer.open.last_mut() {
        match open {
            Open::Array { left: 0, .. } => {
                writer.open.pop();
                stack.pop(1);
            }
            Open::Array { next, left } => {
                stack.get_item(-1, *next);
                *next += 1;
                *left -= 1;
                writer.write_top()?;
            }
            Open::Map { is_value_due: true } => {
                // Table, key, value: the key stays for `next_pair`.
                *open = Open::Map { is_value_due: false };
                writer.write_top()?;
            }
            Open::Map { .. } | Open::Set => {
                if stack.next_pair(-2) {
                    if let Open::Map { is_value_due } = open {
                        *is_value_due = true;
                    } else {
                        stack.pop(1);
                    }
                    // A set's member, or a map's key below its value.
                    let key = if matches!(open, Open::Set) { -1 } else { -2 };
                    stack.push_copy(key);
                    writer.write_top()?;
                } else {
                    writer.open.pop();
                    stack.pop(1);
                }
            }
        }
    }
    Ok(())
}

/// Writes and pops the table on the top if it is a short array of numbers and strings, as most replies are: whether it was.
fn write_row(stack: &Stack, bounds: ReplyBounds, sink: &mut dyn ReplySink) -> bool {
    const LENGTH_MAX: usize = 8;
    let table = stack.top();
    let (mut len, mut bytes, mut position) = (0, 0, 0);
    // Keys and values stay on the stack, which is made to have room for them.
    let is_row = loop {
        match stack.next_from(table, position) {
            None => break bytes <= bounds.bytes,
            Some(next) => position = next,
        }
        len += 1;
        if len > LENGTH_MAX || stack.kind(-2) != ffi::LUA_TNUMBER || stack.number(-2) != Some(len as f64) {
            break false;
        }
        match stack.kind(-1) {
            ffi::LUA_TNUMBER => {}
            ffi::LUA_TSTRING => bytes += stack.string(-1).map_or(0, <[u8]>::len),
            _ => break false,
        }
    };
    if is_row {
        sink.array(len);
        for value in (0..len as c_int).map(|item| table + 2 * (item + 1)) {
            match stack.kind(value) {
                ffi::LUA_TSTRING => sink.bulk(stack.string(value).unwrap_or_default()),
                _ => sink.integer(truncate(stack.number(value).unwrap_or_default())),
            }
        }
    }
    stack.set_top(if is_row { table - 1 } else { table });
    is_row
}

struct Writer<'a> {
    stack: &'a Stack,
    resp: Resp,
    sink: &'a mut dyn ReplySink,
    open: Vec<Open>,
    /// Values that may still be announced, as items of a container.
    values_left: usize,
    bytes_left: usize,
    /// Containers so far.
    containers: usize,
    /// How long it may take.
    time: Duration,
    /// This thread's time when it has taken too long, known from the first look at the clock: most replies are small.
    end: Option<Duration>,
}

impl Writer<'_> {
    /// Writes the value at the top and pops it, unless it is a container: that is left open.
    fn write_top(&mut self) -> Result<(), TooLarge> {
        let stack = self.stack;
        match stack.kind(-1) {
            ffi::LUA_TSTRING => {
                let bytes = stack.string(-1).unwrap_or_default();
                self.bytes_left = self.bytes_left.checked_sub(bytes.len()).ok_or(TooLarge)?;
                self.sink.bulk(bytes);
            }
            ffi::LUA_TNUMBER => self.sink.integer(truncate(stack.number(-1).unwrap_or_default())),
            ffi::LUA_TBOOLEAN => match (self.resp, stack.boolean(-1)) {
                (Resp::Three, value) => self.sink.boolean(value),
                (Resp::Two, true) => self.sink.integer(1),
                (Resp::Two, false) => self.sink.null(),
            },
            ffi::LUA_TTABLE => return self.write_table(),
            _ => self.sink.null(),
        }
        stack.pop(1);
        Ok(())
    }

    fn write_table(&mut self) -> Result<(), TooLarge> {
        let stack = self.stack;
        self.containers += 1;
        if self.containers.is_multiple_of(TICK_CONTAINERS) {
            let now = thread_time();
            if now > *self.end.get_or_insert(now + self.time) {
                return Err(TooLarge);
            }
        }
        // Room for what this table and its items put there until the next table.
        if self.open.len() >= DEPTH_MAX || !stack.has_room(8) {
            self.sink.error(b"ERR reached lua stack limit");
            stack.pop(1);
            return Ok(());
        }
        if let Some(len) = stack.short_array(-1) {
            return self.open_array(len);
        }
        if stack.get_field(-1, c"err") == ffi::LUA_TSTRING {
            return self.write_line(|sink, text| sink.error(text));
        }
        stack.pop(1);
        if stack.get_field(-1, c"ok") == ffi::LUA_TSTRING {
            return self.write_line(|sink, text| sink.status(text));
        }
        stack.pop(1);
        if stack.get_field(-1, c"double") == ffi::LUA_TNUMBER {
            self.sink.double(stack.number(-1).unwrap_or_default());
            stack.pop(2);
            return Ok(());
        }
        stack.pop(1);
        if stack.get_field(-1, c"map") == ffi::LUA_TTABLE {
            let pairs = self.count_pairs();
            self.announce(2 * pairs)?;
            self.sink.map(pairs);
            self.open_inner(Open::Map { is_value_due: false });
            return Ok(());
        }
        stack.pop(1);
        if stack.get_field(-1, c"set") == ffi::LUA_TTABLE {
            let len = self.count_pairs();
            self.announce(len)?;
            self.sink.set(len);
            self.open_inner(Open::Set);
            return Ok(());
        }
        stack.pop(1);
        if stack.get_field(-1, c"big_number") == ffi::LUA_TSTRING {
            return self.write_line(|sink, digits| sink.big_number(digits));
        }
        stack.pop(1);
        if stack.get_field(-1, c"verbatim_string") == ffi::LUA_TTABLE {
            let is_text = stack.get_field(-1, c"string") == ffi::LUA_TSTRING;
            if is_text && stack.get_field(-2, c"format") == ffi::LUA_TSTRING {
                let (text, format) = (
                    stack.string(-2).unwrap_or_default(),
                    stack.string(-1).unwrap_or_default(),
                );
                self.bytes_left = self.bytes_left.checked_sub(text.len()).ok_or(TooLarge)?;
                self.sink.verbatim(format, text);
                stack.pop(4);
                return Ok(());
            }
            stack.pop(if is_text { 2 } else { 1 });
        }
        stack.pop(1);
        let len = self.count_items()?;
        self.open_array(len)
    }

    fn open_array(&mut self, len: usize) -> Result<(), TooLarge> {
        self.announce(len)?;
        self.sink.array(len);
        self.open.push(Open::Array { next: 1, left: len });
        Ok(())
    }

    /// The inner table takes the place of the one whose field it is, with a nil to begin `next_pair` with.
    fn open_inner(&mut self, open: Open) {
        self.stack.remove(-2);
        self.stack.push_nil();
        self.open.push(open);
    }

    /// Counts the values of a container before any of them is written: a table within itself is counted at every depth.
    fn announce(&mut self, values: usize) -> Result<(), TooLarge> {
        self.values_left = self.values_left.checked_sub(values).ok_or(TooLarge)?;
        Ok(())
    }

    /// Items before the first nil.
    fn count_items(&mut self) -> Result<usize, TooLarge> {
        for item in 1.. {
            let kind = self.stack.get_item(-1, item);
            self.stack.pop(1);
            if kind == ffi::LUA_TNIL {
                return Ok(item as usize - 1);
            }
            if item as usize > self.values_left {
                break;
            }
        }
        Err(TooLarge)
    }

    fn count_pairs(&self) -> usize {
        let mut count = 0;
        self.stack.push_nil();
        while self.stack.next_pair(-2) {
            self.stack.pop(1);
            count += 1;
        }
        count
    }

    /// The string on the top as one line; pops it and its table.
    fn write_line(&mut self, write: impl FnOnce(&mut dyn ReplySink, &[u8])) -> Result<(), TooLarge> {
        let text = self.stack.string(-1).unwrap_or_default();
        self.bytes_left = self.bytes_left.checked_sub(text.len()).ok_or(TooLarge)?;
        write(&mut *self.sink, &one_line(text));
        self.stack.pop(2);
        Ok(())
    }
}

/// Without line ends, which would end the frame.
pub(crate) fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter()
        .map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte })
        .collect()
}
