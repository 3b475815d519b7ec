//! Finding a command by its name.

use crate::table::{ALL, Spec};
use rapidhash::RapidHashMap;

/// The longest command name.
const NAME_MAX_BYTES: usize = 32;

/// All commands by lower-case name.
#[derive(Debug, Clone)]
pub struct CommandTable {
    by_name: RapidHashMap<&'static str, &'static Spec>,
}

impl Default for CommandTable {
    fn default() -> Self {
        Self { by_name: ALL.iter().map(|spec| (spec.name, spec)).collect() }
    }
}

impl CommandTable {
    /// The command of that name, in any case.
    pub fn find(&self, name: &[u8]) -> Option<&'static Spec> {
        if name.len() > NAME_MAX_BYTES {
            return None;
        }
        let mut lower = [0u8; NAME_MAX_BYTES];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(std::str::from_utf8(lower).ok()?).copied()
    }
}
