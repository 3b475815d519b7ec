//! Which of two changes of the libraries is newer, so that all nodes of a cluster end up with the same ones: of each library the newest
//! change counts, whether that loaded or deleted it, and what is older than the newest flush is gone.

use super::library::Library;
use super::registry::{Functions, Known};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A change: the one with the higher counter is newer, of two with the same that of the greater name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// One more than the highest that the node knew which made the change.
    pub counter: u64,
    /// That node's name.
    pub node: Arc<str>,
}

/// The newest change of one library.
#[derive(Debug, Clone)]
pub struct LibraryRecord {
    /// The library's name.
    pub name: Box<str>,
    /// Which change it was.
    pub version: Version,
    library: Option<Arc<Library>>,
}

impl LibraryRecord {
    /// The text of the library; nothing if it was deleted.
    pub fn text(&self) -> Option<&[u8]> {
        self.library.as_ref().map(|library| &*library.text)
    }
}

/// What is known of the changes.
#[derive(Debug, Default)]
pub(super) struct Versions {
    node: Arc<str>,
    /// The highest counter so far.
    newest: u64,
    /// What is not newer than this flush is gone.
    flushed: Version,
    /// By the name of the library: its newest change.
    of: BTreeMap<Box<str>, Version>,
}

impl Versions {
    /// The version of a change that this node makes now.
    pub(super) fn next(&mut self) -> Version {
        self.newest += 1;
        Version {
            counter: self.newest,
            node: Arc::clone(&self.node),
        }
    }

    pub(super) fn note(&mut self, library: &str, version: &Version) {
        self.newest = self.newest.max(version.counter);
        self.of.insert(library.into(), version.clone());
    }

    pub(super) fn note_flush(&mut self, version: &Version) {
        self.newest = self.newest.max(version.counter);
        self.flushed = version.clone();
        self.of.retain(|_, of_library| *of_library > *version);
    }

    /// Whether a change of a library is newer than all that is known of it.
    pub(super) fn is_new(&self, library: &str, version: &Version) -> bool {
        *version > self.flushed && self.of.get(library).is_none_or(|known| version > known)
    }

    /// The newest change of a library that is there.
    pub(super) fn of(&self, library: &str) -> Version {
        self.of.get(library).cloned().unwrap_or_default()
    }

    /// Forgets of which libraries it is known that they were deleted, the oldest first, if there are more than `most` of them.
    pub(super) fn forget_deleted(&mut self, most: usize, is_there: impl Fn(&str) -> bool) {
        let deleted = self.of.iter().filter(|(name, _)| !is_there(name));
        let mut deleted: Vec<(Version, Box<str>)> =
            deleted.map(|(name, version)| (version.clone(), name.clone())).collect();
        if deleted.len() > most {
            deleted.sort_unstable();
            for (_, name) in &deleted[..deleted.len() - most] {
                self.of.remove(name);
            }
        }
    }
}

impl Functions {
    /// Says what changes of this node are named after.
    #[must_use]
    pub fn of_node(self, node: Arc<str>) -> Self {
        self.write().versions.node = node;
        self
    }

    /// The highest counter of a change so far.
    pub fn newest_change(&self) -> u64 {
        self.read().versions.newest
    }

    /// The newest flush, and the newest changes of this node's own after the one with that counter.
    pub fn own_changes_since(&self, counter: u64) -> (Version, Vec<LibraryRecord>) {
        let known = self.read();
        let of = known.versions.of.iter();
        let own = of.filter(|(_, version)| version.counter > counter && version.node == known.versions.node);
        let records = own.map(|(name, version)| known.record(name, version)).collect();
        (known.versions.flushed.clone(), records)
    }

    /// The newest flush, and of each library the newest change.
    pub fn known_changes(&self) -> (Version, Vec<(Box<str>, Version)>) {
        let known = self.read();
        let of = known.versions.of.iter();
        let changes = of.map(|(name, version)| (name.clone(), version.clone())).collect();
        (known.versions.flushed.clone(), changes)
    }

    /// The newest flush, and changes that are newer than what another node knows, with texts of about that many bytes; and whether there
    /// are more.
    pub fn changes_beside(
        &self,
        others: &HashMap<Box<str>, Version>,
        bytes_max: usize,
    ) -> (Version, Vec<LibraryRecord>, bool) {
        let known = self.read();
        let of = known.versions.of.iter();
        let newer = of.filter(|(name, version)| others.get(*name).is_none_or(|other| *version > other));
        let mut newer = newer.map(|(name, version)| known.record(name, version)).peekable();
        let mut records = Vec::new();
        let mut bytes = 0;
        while bytes < bytes_max
            && let Some(record) = newer.next()
        {
            bytes += record.name.len() + record.text().map_or(0, <[u8]>::len);
            records.push(record);
        }
        let more = newer.peek().is_some();
        (known.versions.flushed.clone(), records, more)
    }

    /// Whether a change of a library is newer than what is known of it.
    pub fn is_new_change(&self, library: &str, version: &Version) -> bool {
        self.read().versions.is_new(library, version)
    }

    /// Forgets a library if a change that another node made is newer than what is known of it.
    pub fn delete_at(&self, library: &str, version: &Version) {
        let mut known = self.write();
        if known.versions.is_new(library, version) {
            known.unlink(library);
            known.versions.note(library, version);
            self.limit_deleted(&mut known);
            self.changed();
        }
    }

    /// Forgets the libraries whose newest change is not newer than a flush that another node has made.
    pub fn flush_at(&self, version: &Version) {
        let mut known = self.write();
        if *version <= known.versions.flushed {
            return;
        }
        let names: Vec<Box<str>> = known.libraries.keys().cloned().collect();
        for name in names {
            if known.versions.of(&name) <= *version {
                known.unlink(&name);
            }
        }
        known.versions.note_flush(version);
        self.changed();
    }

    /// Bounds what is known of libraries that were deleted.
    pub(super) fn limit_deleted(&self, known: &mut Known) {
        let Known {
            versions, libraries, ..
        } = known;
        versions.forget_deleted(self.limits().libraries, |name| libraries.contains_key(name));
    }
}

impl Known {
    fn record(&self, name: &str, version: &Version) -> LibraryRecord {
        LibraryRecord {
            name: name.into(),
            version: version.clone(),
            library: self.libraries.get(name).cloned(),
        }
    }
}
