//! Preparing for the commands that wait in a pipeline.
//!
//! A key of a large store is in no cache: a command waits for half a dozen reads from memory, one after the other. Those of many
//! commands can be waited for together, before the first of them runs.

use crate::table::{Run, Spec};
use crate::{CommandTable, LastCommand, Shard};
use smallvec::SmallVec;
use tollgate_protocol::{Ahead, Request};
use tollgate_store::{Key, LOCATE_BATCH, Space, slot_of};

/// Bytes of a store from which on its entries are not expected to be in the processor's caches anyway.
const WARM_FROM_BYTES: usize = 1 << 20;
/// Keys from which on preparing gains more than it costs.
const KEYS_MIN: usize = 4;
/// Commands that are looked at in one go: so many that their reads overlap well, and few enough that what was read for the first of
/// them is not displaced by the last.
pub const COMMANDS_AHEAD: usize = 32;

const _: () = assert!(COMMANDS_AHEAD <= LOCATE_BATCH);

/// Looks ahead for one worker.
#[derive(Debug, Default)]
pub struct Warmer {
    last: LastCommand,
}

impl Warmer {
    /// Reads the entries that the next commands of a connection will want of this shard, up to [`COMMANDS_AHEAD`].
    pub fn before<'a>(&mut self, table: &CommandTable, shard: &Shard, db: u8, ahead: impl Iterator<Item = Ahead<'a>>) {
        if !shard.is_worth_warming() {
            return;
        }
        let mut ahead = ahead.take(COMMANDS_AHEAD).peekable();
        // Pipelines of checks are common, and look their keys up together anyway.
        let first = ahead.peek().and_then(|ahead| self.last.find(table, ahead.arg(0)?));
        if first.is_some_and(|spec| !matches!(spec.run, Run::Check(_))) {
            shard.warm(ahead.map(|ahead| {
                let spec = self.last.find(table, ahead.arg(0)?)?;
                Some((db, first_key(spec, |index| ahead.arg(index))?))
            }));
        }
    }
}

/// The first key of a command that is not looked up together with others anyway.
fn first_key<'a>(spec: &Spec, arg: impl Fn(usize) -> Option<&'a [u8]>) -> Option<&'a [u8]> {
    match spec.run {
        Run::Key(_) | Run::Keys(_) | Run::EachKey(_) => arg(spec.first_key()?),
        Run::Script(_) if arg(2)? != b"0" => arg(3),
        _ => None,
    }
}

impl Shard {
    /// Whether [`Shard::warm`] may gain anything.
    fn is_worth_warming(&self) -> bool {
        self.store.bytes() >= WARM_FROM_BYTES
    }

    /// As [`Warmer::before`], of commands that were brought here, each with its database.
    pub fn warm_for<'a>(&self, commands: impl Iterator<Item = (&'static Spec, u8, Request<'a>)>) {
        if self.is_worth_warming() {
            let commands = commands.take(COMMANDS_AHEAD);
            self.warm(commands.map(|(spec, db, request)| Some((db, first_key(spec, |index| request.get(index))?))));
        }
    }

    /// Reads the entries of keys of these databases.
    fn warm<'a>(&self, keys: impl Iterator<Item = Option<(u8, &'a [u8])>>) {
        let own = self.store.slots();
        let keys = keys.flatten().filter_map(|(db, key)| {
            let slot = slot_of(key);
            // Guests are few, and were just put here.
            let is_own = own.contains(&slot);
            is_own.then(|| self.store.key_in_slot(Space::Db(db), slot, key).ok())?
        });
        let keys: SmallVec<[Key<'_>; COMMANDS_AHEAD]> = keys.collect();
        if keys.len() >= KEYS_MIN {
            self.store.warm(&keys);
        }
    }
}
