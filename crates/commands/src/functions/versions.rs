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
            known.shadowed.remove(library);
            known.versions.note(library, version);
            known.settle();
            self.limit_deleted(&mut known);
            self.changed();
        }
    }

    /// Forgets the libraries whose newest change is not newer than a flush that another node has made.
    pub fn flush_at(&self, version: &Version) {
        let mut known = self.write();
        let known = &mut *known;
        if *version <= known.versions.flushed {
            return;
        }
        let names: Vec<Box<str>> = known.libraries.keys().cloned().collect();
        for name in names {
            if known.versions.of(&name) <= *version {
                known.unlink(&name);
            }
        }
        known.shadowed.retain(|name, _| known.versions.of(name) > *version);
        known.versions.note_flush(version);
        known.settle();
        self.changed();
    }

    /// Bounds what is known of libraries that were deleted.
    pub(super) fn limit_deleted(&self, known: &mut Known) {
        let Known {
            versions,
            libraries,
            shadowed,
            ..
        } = known;
        let is_there = |name: &str| libraries.contains_key(name) || shadowed.contains_key(name);
        versions.forget_deleted(self.limits().libraries, is_there);
    }
}

impl Known {
    fn record(&self, name: &str, version: &Version) -> LibraryRecord {
        LibraryRecord {
            name: name.into(),
            version: version.clone(),
            library: self.libraries.get(name).or_else(|| self.shadowed.get(name)).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::library::{Function, Header};
    use crate::functions::registry::Existing;
    use crate::functions::{Functions, FunctionsLimits};
    use proptest::prelude::*;
    use tollgate_eval::ScriptFlags;

    fn node(name: &str) -> Functions {
        let limits = FunctionsLimits {
            libraries: 10,
            bytes: 100_000,
        };
        Functions::new(limits).of_node(name.into())
    }

    fn library(name: &str, functions: &[&str], mark: usize) -> Arc<Library> {
        let text = format!("#!lua name={name}\n{mark} {functions:?}");
        let header = Header::read(text.as_bytes()).unwrap();
        let functions = functions.iter().map(|name| Function {
            name: (*name).into(),
            description: None,
            flags: ScriptFlags::default(),
        });
        let functions = functions.collect();
        Arc::new(Library::new(header, text.into_bytes().into(), functions))
    }

    /// One node tells another what it knows.
    fn tell(from: &Functions, to: &Functions) {
        let known: HashMap<Box<str>, Version> = to.known_changes().1.into_iter().collect();
        let (flushed, records, more) = from.changes_beside(&known, usize::MAX);
        assert!(!more);
        to.flush_at(&flushed);
        for record in records {
            match &record.library {
                None => to.delete_at(&record.name, &record.version),
                Some(library) => drop(to.put_at(Arc::clone(library), &record.version).unwrap()),
            }
        }
    }

    fn texts(functions: &Functions) -> Vec<Vec<u8>> {
        functions.all().iter().map(|library| library.text.to_vec()).collect()
    }

    #[test]
    fn the_newest_change_counts() {
        let (a, b) = (node("a"), node("b"));
        a.put(vec![library("l", &["f"], 1)], Existing::Keep).unwrap();
        tell(&a, &b);
        assert_eq!(texts(&b), texts(&a));
        b.put(vec![library("l", &["f"], 2)], Existing::Replace).unwrap();
        // What b knows is newer.
        tell(&a, &b);
        assert!(texts(&b)[0].ends_with(b"2 [\"f\"]"));
        tell(&b, &a);
        assert_eq!(texts(&a), texts(&b));
        let since = a.newest_change();
        a.delete(b"l").unwrap();
        let (_, own) = a.own_changes_since(since);
        assert!(own.len() == 1 && own[0].text().is_none());
        tell(&a, &b);
        assert!(texts(&b).is_empty() && b.own_changes_since(since).1.is_empty());
        b.put(vec![library("l", &["f"], 3)], Existing::Keep).unwrap();
        b.flush();
        a.put(vec![library("m", &["g"], 4)], Existing::Keep).unwrap();
        tell(&b, &a);
        tell(&a, &b);
        assert_eq!(texts(&a), texts(&b));
    }

    #[test]
    fn texts_come_some_at_a_time() {
        let a = node("a");
        for name in ["l", "m", "n"] {
            a.put(vec![library(name, &[name], 0)], Existing::Keep).unwrap();
        }
        let (_, records, more) = a.changes_beside(&HashMap::new(), 30);
        assert!(records.len() == 2 && more);
        let known: HashMap<Box<str>, Version> = records
            .into_iter()
            .map(|record| (record.name.clone(), record.version))
            .collect();
        let (_, records, more) = a.changes_beside(&known, 30);
        assert!(records.len() == 1 && !more);
    }

    #[derive(Debug, Clone)]
    enum Act {
        Put {
            node: usize,
            library: usize,
            functions: usize,
        },
        Delete {
            node: usize,
            library: usize,
        },
        Flush {
            node: usize,
        },
        Tell {
            from: usize,
            to: usize,
        },
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            6 => (0..3usize, 0..3usize, 0..4usize)
                .prop_map(|(node, library, functions)| Act::Put { node, library, functions }),
            2 => (0..3usize, 0..3usize).prop_map(|(node, library)| Act::Delete { node, library }),
            1 => (0..3usize).prop_map(|node| Act::Flush { node }),
            6 => (0..3usize, 0..3usize).prop_map(|(from, to)| Act::Tell { from, to }),
        ];
        prop::collection::vec(act, 1..60)
    }

    proptest! {
        /// Whatever nodes change, and whoever hears of what when: in the end all have the same libraries.
        #[test]
        fn all_nodes_end_up_with_the_same(acts in acts()) {
            const NAMES: [&str; 3] = ["l", "m", "n"];
            const FUNCTIONS: [&[&str]; 4] = [&["f"], &["g"], &["f", "g"], &["h"]];
            let nodes = ["a", "b", "c"].map(node);
            for (mark, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Put { node, library: name, functions } => {
                        let library = library(NAMES[name], FUNCTIONS[functions], mark);
                        // It may be refused for a function of another library.
                        let _ = nodes[node].put(vec![library], Existing::Replace);
                    }
                    Act::Delete { node, library } => drop(nodes[node].delete(NAMES[library].as_bytes())),
                    Act::Flush { node } => drop(nodes[node].flush()),
                    Act::Tell { from, to } => tell(&nodes[from], &nodes[to]),
                }
            }
            for _ in 0..4 {
                for (from, to) in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)] {
                    tell(&nodes[from], &nodes[to]);
                }
            }
            prop_assert_eq!(texts(&nodes[0]), texts(&nodes[1]));
            prop_assert_eq!(texts(&nodes[1]), texts(&nodes[2]));
        }
    }
}
