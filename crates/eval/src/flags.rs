//! What scripts and functions declare of themselves.

/// Flags of a script or function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// The bit of a flag is its place here.
    const NAMES: [&str; 5] = [
        "no-writes",
        "allow-oom",
        "allow-stale",
        "no-cluster",
        "allow-cross-slot-keys",
    ];

    /// Adds the flag of that name, in whatever case; `false` if there is none.
    pub fn add(&mut self, name: &[u8]) -> bool {
        let place = Self::NAMES
            .iter()
            .position(|flag| flag.as_bytes().eq_ignore_ascii_case(name));
        if let Some(place) = place {
            self.0 |= 1 << place;
        }
        place.is_some()
    }

    /// The names of its flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        let names = Self::NAMES.into_iter().enumerate();
        names.filter_map(move |(place, name)| (self.0 & 1 << place != 0).then_some(name))
    }

    /// Whether it may only read.
    pub fn no_writes(self) -> bool {
        self.0 & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_by_name() {
        let mut flags = ScriptFlags::default();
        assert!(!flags.no_writes() && flags.names().next().is_none());
        assert!(flags.add(b"allow-OOM") && !flags.no_writes());
        assert!(flags.add(b"No-Writes") && flags.no_writes());
        assert!(!flags.add(b"no-write") && !flags.add(b""));
        assert_eq!(flags.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
    }
}
