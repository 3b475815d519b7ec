//! What a connection has queued since MULTI, and what it watches (<https://redis.io/docs/latest/develop/interact/transactions/>).

use crate::Batch;
use crate::interest::WatchMark;
use crate::table::Run;
use std::sync::Arc;

/// The commands between MULTI and EXEC.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// They, in order.
    pub commands: Batch,
    /// Whether one was refused: then EXEC refuses all.
    pub is_broken: bool,
}

impl Transaction {
    /// Whether a script is among the commands.
    pub fn has_scripts(&self) -> bool {
        self.has(|run| matches!(run, Run::Script(_)))
    }

    /// Whether FLUSHALL or FLUSHDB is among the commands.
    pub fn empties(&self) -> bool {
        self.has(|run| matches!(run, Run::Keyspace(command) if command.empties()))
    }

    fn has(&self, wanted: impl Fn(&Run) -> bool) -> bool {
        let mut commands = (0..self.commands.len()).map_while(|index| self.commands.get(index));
        commands.any(|(spec, ..)| wanted(&spec.run))
    }
}

/// The keys that a connection watches.
#[derive(Debug, Clone, Default)]
pub struct Watching {
    /// Set when one of them changes.
    pub mark: Arc<WatchMark>,
    /// Each with its database.
    pub keys: Vec<(u8, Box<[u8]>)>,
}

impl Watching {
    /// Whether a key is watched already.
    pub fn has(&self, db: u8, key: &[u8]) -> bool {
        self.keys.iter().any(|(of, watched)| *of == db && **watched == *key)
    }
}
