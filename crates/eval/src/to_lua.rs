//! A reply of a command as a Lua value.
//!
//! The rules are those of Redis 7.2 (`src/script_lua.c`, `redisProtocolToLuaType_*`): status and error become tables,
//! nil is false in RESP2 and nil in RESP3, and the types of RESP3 are tables with one field named after the type.

use crate::host::Resp;
use crate::number::write_general;
use crate::stack::{Fail, Stack};
use crate::tape::{Node, Nodes, Tape};

/// Containers in containers that a reply may have; no command has more than a few.
const DEPTH_MAX: usize = 128;

/// Values that a reply has on the stack until its next container.
const ROOM: i32 = 8;

/// Containers in containers for which a C function has room anyway: 20 values (`LUA_MINSTACK`) beyond its arguments.
const DEPTH_WITH_ROOM: usize = 2;

/// Nodes between two looks at the clock.
const TICK_NODES: usize = 4096;

/// Pushes the reply on the tape, in a C function that has pushed nothing else.
pub(crate) fn push_reply(stack: &Stack, tape: &Tape, resp: Resp) -> Result<(), Fail> {
    let mut reader = Reader {
        stack,
        nodes: tape.nodes(),
        resp,
        ticks: TICK_NODES,
    };
    reader.push(0)
}

struct Reader<'a> {
    stack: &'a Stack,
    nodes: Nodes<'a>,
    resp: Resp,
    /// Nodes until the next look at the clock.
    ticks: usize,
}

impl Reader<'_> {
    fn push(&mut self, depth: usize) -> Result<(), Fail> {
        if depth > DEPTH_MAX {
            return Err(Fail::text("a reply is nested too deeply"));
        }
        let stack = self.stack;
        // A host that wrote too little gets nil for the rest.
        let node = self.nodes.next().unwrap_or(Node::Null);
        self.ticks -= 1;
        if self.ticks == 0 {
            self.ticks = TICK_NODES;
            stack.shared().tick()?;
        }
        let is_rich = self.resp == Resp::Three;
        match node {
            Node::Integer(value) => stack.push_number(value as f64),
            Node::Bulk(bytes) => stack.push_bytes(bytes),
            Node::Status(text) => stack.push_field_table(c"ok", text),
            Node::Error(text) => stack.push_field_table(c"err", text),
            Node::Null if is_rich => stack.push_nil(),
            Node::Null => stack.push_boolean(false),
            Node::Array(len) => self.push_array(len, depth)?,
            Node::Map(pairs) if is_rich => {
                self.make_room(depth);
                stack.new_table(0, 1);
                stack.new_table(0, pairs);
                for _ in 0..pairs {
                    self.push(depth + 1)?;
                    self.push(depth + 1)?;
                    self.set_pair();
                }
                stack.set_field(-2, c"map");
            }
            Node::Map(pairs) => self.push_array(2 * pairs, depth)?,
            Node::Set(len) if is_rich => {
                self.make_room(depth);
                stack.new_table(0, 1);
                stack.new_table(0, len);
                for _ in 0..len {
                    self.push(depth + 1)?;
                    stack.push_boolean(true);
                    self.set_pair();
                }
                stack.set_field(-2, c"set");
            }
            Node::Set(len) => self.push_array(len, depth)?,
            Node::Boolean(value) if is_rich => stack.push_boolean(value),
            Node::Boolean(value) => stack.push_number(f64::from(u8::from(value))),
            Node::Double(value) if is_rich => {
                stack.new_table(0, 1);
                stack.push_number(value);
                stack.set_field(-2, c"double");
            }
            Node::Double(value) => {
                let mut text = Vec::new();
                write_general(&mut text, value, 17);
                stack.push_bytes(&text);
            }
            Node::BigNumber(digits) if is_rich => stack.push_field_table(c"big_number", digits),
            Node::Verbatim(format, text) if is_rich => {
                stack.new_table(0, 1);
                stack.push_field_table(c"string", text);
                stack.push_bytes(format);
                stack.set_field(-2, c"format");
                stack.set_field(-2, c"verbatim_string");
            }
            Node::BigNumber(text) | Node::Verbatim(_, text) => stack.push_bytes(text),
        }
        Ok(())
    }

    /// Makes room for a container with that many around it.
    fn make_room(&self, depth: usize) {
        if depth >= DEPTH_WITH_ROOM {
            self.stack.require(ROOM);
        }
    }

    fn push_array(&mut self, len: usize, depth: usize) -> Result<(), Fail> {
        self.make_room(depth);
        self.stack.new_table(len, 0);
        for item in 1..=len {
            self.push(depth + 1)?;
            self.stack.set_item(-2, item as i32);
        }
        Ok(())
    }

    /// A nil cannot be a key.
    fn set_pair(&self) {
        if self.stack.kind(-2) == mlua::ffi::LUA_TNIL {
            self.stack.pop(2);
        } else {
            self.stack.set_pair(-3);
        }
    }
}
