//! KEYS and ARGV: tables of strings that a thread keeps from run to run. Most runs leave them as they are, and many are given the same
//! arguments as the run before, so that neither the table nor its strings have to be made again, nor to be collected.

use std::ffi::c_int;

use mlua::ffi;

use crate::shared::Made;
use crate::stack::Stack;

/// Longest list that is kept.
const KEPT_LEN_MAX: usize = 32;

/// What a run may have had the VM allocate that a list is kept, in bytes: what it holds then cannot be more.
const MADE_BYTES_MAX: usize = 64 * 1024;

/// A list of strings for one run after the other.
#[derive(Default)]
pub(crate) struct List(Option<Kept>);

#[derive(Clone, Copy)]
struct Kept {
    reference: c_int,
    len: usize,
    /// What the VM had made before the run that has it.
    made: Made,
}

impl List {
    /// Pushes the list of these strings.
    pub(crate) fn push<B: AsRef<[u8]>>(&mut self, stack: &Stack, strings: impl ExactSizeIterator<Item = B> + Clone) {
        let made = stack.shared().memory.made();
        if let Some(kept) = &mut self.0
            && kept.len == strings.len()
            && kept.push(stack, strings.clone())
        {
            kept.made = made;
            return;
        }
        self.release(stack);
        let len = strings.len();
        stack.new_table(len, 0);
        for (item, string) in (1..).zip(strings) {
            stack.push_bytes(string.as_ref());
            stack.set_item(-2, item);
        }
        if len <= KEPT_LEN_MAX {
            self.0 = Some(Kept {
                reference: stack.make_reference(),
                len,
                made,
            });
        }
    }

    /// Ends the run. A table that may be large by now is not kept: it would cost memory, and time to look through.
    pub(crate) fn settle(&mut self, stack: &Stack) {
        let made = stack.shared().memory.made();
        let is_small = |kept: &Kept| {
            made.large_blocks == kept.made.large_blocks && made.bytes.wrapping_sub(kept.made.bytes) <= MADE_BYTES_MAX
        };
        if self.0.as_ref().is_some_and(|kept| !is_small(kept)) {
            self.release(stack);
        }
    }

    /// Lets go of the table.
    pub(crate) fn release(&mut self, stack: &Stack) {
        if let Some(kept) = self.0.take() {
            stack.release_reference(kept.reference);
        }
    }
}

impl Kept {
    /// Pushes the table with these strings in place of those that it has, if it has as many and nothing else: whatever the run before did
    /// to it, this one does not see it.
    fn push<B: AsRef<[u8]>>(&self, stack: &Stack, strings: impl Iterator<Item = B>) -> bool {
        stack.push_reference(self.reference);
        let table = stack.top();
        let mut position = 0;
        let is_list = (1..).zip(strings).all(|(item, string)| {
            // Keys and values stay on the stack, which is made to have room for them.
            let Some(next) = stack.next_from(table, position) else {
                return false;
            };
            position = next;
            if stack.kind(-2) != ffi::LUA_TNUMBER || stack.number(-2) != Some(f64::from(item)) {
                return false;
            }
            if stack.string(-1) != Some(string.as_ref()) {
                stack.push_bytes(string.as_ref());
                stack.set_item(table, item);
            }
            true
        });
        let is_it = is_list && stack.next_from(table, position).is_none() && !stack.get_metatable(table);
        stack.set_top(if is_it { table } else { table - 1 });
        is_it
    }
}
