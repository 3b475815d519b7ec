//! The libraries that a node knows, by their names.

use super::library::{Function, Library};
use super::versions::{Version, Versions};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bounds of the libraries that a node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionsLimits {
    /// Libraries.
    pub libraries: usize,
    /// Bytes of all their texts, and of what they say of their functions.
    pub bytes: usize,
}

/// The libraries of a node.
#[derive(Debug)]
pub struct Functions {
    limits: FunctionsLimits,
    known: RwLock<Known>,
    /// Raised by every change: what workers have compiled is looked up again then.
    generation: AtomicU64,
    refused_libraries: AtomicU64,
    refused_bytes: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) libraries: BTreeMap<Box<str>, Arc<Library>>,
    /// By their names in lower case: FCALL takes them in any.
    functions: HashMap<Box<str>, FoundFunction>,
    bytes: usize,
    pub(super) versions: Versions,
    /// Libraries of other nodes that do not count, since one that was changed later has a function of the same name as they.
    pub(super) shadowed: BTreeMap<Box<str>, Arc<Library>>,
}

/// A function and its library.
#[derive(Debug, Clone)]
pub(crate) struct FoundFunction {
    pub(crate) library: Arc<Library>,
    index: usize,
}

impl FoundFunction {
    /// The function.
    pub(crate) fn function(&self) -> &Function {
        &self.library.functions[self.index]
    }
}

/// What happens to libraries that are there when others come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// They stay; one of the same name is an error.
    Keep,
    /// Those of the same names go.
    Replace,
    /// All go.
    Flush,
}

/// Why libraries were not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// There is one of that name.
    Library(Box<str>),
    /// There is a function of that name in another.
    Function(Box<str>),
    /// There is no room.
    TooMany(FunctionsLimits),
}

/// A change of the libraries, which [`Functions::take_back`] undoes.
#[derive(Debug, Default)]
pub struct LibraryChange {
    removed: Vec<Arc<Library>>,
    added: Vec<Arc<Library>>,
}

/// Libraries, functions, and the bytes that they are counted with.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FunctionCounts {
    /// Libraries.
    pub libraries: usize,
    /// Functions of all libraries.
    pub functions: usize,
    /// See [`FunctionsLimits::bytes`].
    pub bytes: usize,
}

impl Known {
    fn link(&mut self, library: &Arc<Library>) {
        for (index, function) in library.functions.iter().enumerate() {
            let found = FoundFunction {
                library: Arc::clone(library),
                index,
            };
            self.functions.insert(key_of(&function.name), found);
        }
        self.bytes += library.bytes();
        self.libraries.insert(library.name.clone(), Arc::clone(library));
    }

    /// Sees to it that of libraries with functions of the same name the one that was changed last counts: so all nodes that know the same
    /// changes have the same libraries.
    pub(super) fn settle(&mut self) {
        if self.shadowed.is_empty() {
            return;
        }
        let all: Vec<(Version, Arc<Library>)> = self
            .libraries
            .values()
            .chain(self.shadowed.values())
            .map(|library| (self.versions.of(&library.name), Arc::clone(library)))
            .collect();
        let mut newest: HashMap<Box<str>, &Version> = HashMap::new();
        for (version, library) in &all {
            for function in &library.functions {
                let of_function = newest.entry(key_of(&function.name)).or_insert(version);
                *of_function = (*of_function).max(version);
            }
        }
        let (count, shadowed): (Vec<_>, Vec<_>) = all.iter().partition(|(version, library)| {
            let mut functions = library.functions.iter();
            functions.all(|function| newest.get(&*key_of(&function.name)) == Some(&version))
        });
        for (_, library) in shadowed {
            self.unlink(&library.name);
            self.shadowed.insert(library.name.clone(), Arc::clone(library));
        }
        for (_, library) in count {
            if self.shadowed.remove(&library.name).is_some() {
                self.link(library);
            }
        }
    }

    pub(super) fn unlink(&mut self, name: &str) -> Option<Arc<Library>> {
        let library = self.libraries.remove(name)?;
        for function in &library.functions {
            self.functions.remove(&*key_of(&function.name));
        }
        self.bytes -= library.bytes();
        Some(library)
    }
}

fn key_of(function: &str) -> Box<str> {
    function.to_ascii_lowercase().into()
}

impl Functions {
    /// No libraries, with these bounds.
    pub fn new(limits: FunctionsLimits) -> Self {
        Self {
            limits,
            known: RwLock::default(),
            generation: AtomicU64::new(0),
            refused_libraries: AtomicU64::new(0),
            refused_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bounds.
    pub(crate) fn limits(&self) -> FunctionsLimits {
        self.limits
    }

    /// Which change was the last.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// How often libraries were refused because there were too many, so far.
    pub fn refused_libraries(&self) -> u64 {
        self.refused_libraries.load(Ordering::Relaxed)
    }

    /// How often libraries were refused because they were too large, so far.
    pub fn refused_bytes(&self) -> u64 {
        self.refused_bytes.load(Ordering::Relaxed)
    }

    /// Says that libraries are too large, and counts it.
    pub(crate) fn refuse_bytes(&self) -> NotTaken {
        self.refused_bytes.fetch_add(1, Ordering::Relaxed);
        NotTaken::TooMany(self.limits)
    }

    /// How many there are.
    pub fn counts(&self) -> FunctionCounts {
        let known = self.read();
        FunctionCounts {
            libraries: known.libraries.len(),
            functions: known.functions.len(),
            bytes: known.bytes,
        }
    }

    /// The function of that name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<FoundFunction> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.read().functions.get(&*name).cloned()
    }

    /// Whether there is a library of that name.
    pub(crate) fn has(&self, library: &str) -> bool {
        self.read().libraries.contains_key(library)
    }

    /// Whether this is still the library of its name.
    pub(crate) fn is_current(&self, library: &Arc<Library>) -> bool {
        let known = self.read();
        known
            .libraries
            .get(&library.name)
            .is_some_and(|known| Arc::ptr_eq(known, library))
    }

    /// All libraries, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Library>> {
        self.read().libraries.values().cloned().collect()
    }

    /// Takes libraries, all or none.
    pub(crate) fn put(&self, libraries: Vec<Arc<Library>>, existing: Existing) -> Result<LibraryChange, NotTaken> {
        let mut known = self.write();
        self.put_into(&mut known, libraries, existing)
    }

    /// Takes a library that another node has loaded, if that change is newer than what is known of it. While two libraries have a function of
    /// the same name, since they were loaded on two nodes at once, the one that was changed last counts.
    pub(crate) fn put_at(&self, library: Arc<Library>, version: &Version) -> Result<LibraryChange, NotTaken> {
        let mut known = self.write();
        if !known.versions.is_new(&library.name, version) {
            return Ok(LibraryChange::default());
        }
        let is_there = known.libraries.contains_key(&library.name) || known.shadowed.contains_key(&library.name);
        let count = known.libraries.len() + known.shadowed.len() + usize::from(!is_there);
        if count > self.limits.libraries {
            self.refused_libraries.fetch_add(1, Ordering::Relaxed);
            return Err(NotTaken::TooMany(self.limits));
        }
        let before = known.libraries.get(&library.name).map_or(0, |library| library.bytes());
        if known.bytes - before + library.bytes() > self.limits.bytes {
            return Err(self.refuse_bytes());
        }
        known.unlink(&library.name);
        known.versions.note(&library.name, version);
        known.shadowed.insert(library.name.clone(), library);
        known.settle();
        self.changed();
        Ok(LibraryChange::default())
    }

    fn put_into(
        &self,
        known: &mut Known,
        libraries: Vec<Arc<Library>>,
        existing: Existing,
    ) -> Result<LibraryChange, NotTaken> {
        let mut names = BTreeSet::new();
        let mut functions = BTreeSet::new();
        for library in &libraries {
            let is_there = existing == Existing::Keep && known.libraries.contains_key(&library.name);
            if is_there || !names.insert(&*library.name) {
                return Err(NotTaken::Library(library.name.clone()));
            }
        }
        let goes = |library: &Library| match existing {
            Existing::Keep => false,
            Existing::Replace => names.contains(&*library.name),
            Existing::Flush => true,
        };
        for function in libraries.iter().flat_map(|library| &library.functions) {
            let key = key_of(&function.name);
            let is_there = known.functions.get(&key).is_some_and(|found| !goes(&found.library));
            if is_there || !functions.insert(key) {
                return Err(NotTaken::Function(function.name.clone()));
            }
        }
        let removed: Vec<_> = known
            .libraries
            .values()
            .filter(|library| goes(library))
            .cloned()
            .collect();
        let bytes = |libraries: &[Arc<Library>]| -> usize { libraries.iter().map(|library| library.bytes()).sum() };
        if known.libraries.len() - removed.len() + libraries.len() > self.limits.libraries {
            self.refused_libraries.fetch_add(1, Ordering::Relaxed);
            return Err(NotTaken::TooMany(self.limits));
        }
        if known.bytes - bytes(&removed) + bytes(&libraries) > self.limits.bytes {
            return Err(self.refuse_bytes());
        }
        let version = known.versions.next();
        for library in &removed {
            known.unlink(&library.name);
            known.versions.note(&library.name, &version);
        }
        for library in &libraries {
            known.shadowed.remove(&library.name);
            known.link(library);
            known.versions.note(&library.name, &version);
        }
        known.settle();
        self.limit_deleted(known);
        self.changed();
        Ok(LibraryChange {
            removed,
            added: libraries,
        })
    }

    /// Forgets a library; `None` if there is none of that name.
    pub(crate) fn delete(&self, name: &[u8]) -> Option<LibraryChange> {
        let name = std::str::from_utf8(name).ok()?;
        let mut known = self.write();
        let removed = vec![known.unlink(name)?];
        let version = known.versions.next();
        known.versions.note(name, &version);
        known.settle();
        self.limit_deleted(&mut known);
        self.changed();
        Some(LibraryChange {
            removed,
            added: Vec::new(),
        })
    }

    /// Forgets all libraries.
    pub(crate) fn flush(&self) -> LibraryChange {
        let mut known = self.write();
        let mut versions = std::mem::take(&mut known.versions);
        let version = versions.next();
        versions.note_flush(&version);
        let all = std::mem::replace(
            &mut *known,
            Known {
                versions,
                ..Known::default()
            },
        );
        self.changed();
        drop(known);
        LibraryChange {
            removed: all.libraries.into_values().collect(),
            added: Vec::new(),
        }
    }

    /// Undoes a change, as far as others have not changed the same since.
    pub fn take_back(&self, change: LibraryChange) {
        let mut known = self.write();
        let version = known.versions.next();
        for library in change.added {
            let now = known.libraries.get(&library.name);
            if now.is_some_and(|now| Arc::ptr_eq(now, &library)) {
                known.unlink(&library.name);
                known.versions.note(&library.name, &version);
            }
        }
        for library in change.removed {
            let mut functions = library.functions.iter();
            let is_free = !known.libraries.contains_key(&library.name)
                && !functions.any(|function| known.functions.contains_key(&*key_of(&function.name)));
            if is_free {
                known.shadowed.remove(&library.name);
                known.link(&library);
                known.versions.note(&library.name, &version);
            }
        }
        self.changed();
    }

    /// While the lock is held, so that nobody sees the change and the generation before it.
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::library::Header;
    use tollgate_eval::ScriptFlags;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let text = format!("#!lua name={name}\n{functions:?}");
        let header = Header::read(text.as_bytes()).unwrap();
        let functions = functions.iter().map(|name| Function {
            name: (*name).into(),
            description: None,
            flags: ScriptFlags::default(),
        });
        let functions = functions.collect();
        Arc::new(Library::new(header, text.into_bytes().into(), functions))
    }

    fn functions() -> Functions {
        Functions::new(FunctionsLimits {
            libraries: 3,
            bytes: 10_000,
        })
    }

    fn names(functions: &Functions) -> Vec<String> {
        let known = functions.read();
        let mut names: Vec<String> = known.functions.keys().map(|name| name.to_string()).collect();
        names.sort_unstable();
        let libraries = known.libraries.keys().map(|name| name.to_uppercase());
        libraries.chain(names).collect()
    }

    #[test]
    fn libraries_come_and_go_whole() {
        let functions = functions();
        let put = |libraries: &[Arc<Library>], existing| functions.put(libraries.to_vec(), existing).map(drop);
        put(&[library("a", &["f", "G"]), library("b", &["h"])], Existing::Keep).unwrap();
        assert_eq!(names(&functions), ["A", "B", "f", "g", "h"]);
        assert_eq!(&*functions.find(b"g").unwrap().function().name, "G");
        assert_eq!(&*functions.find(b"F").unwrap().library.name, "a");
        assert!(functions.find(b"\xff").is_none() && functions.find(b"").is_none());
        let before = functions.generation();
        let library_error = |name: &str| Err(NotTaken::Library(name.into()));
        let function_error = |name: &str| Err(NotTaken::Function(name.into()));
        assert_eq!(
            put(&[library("c", &["x"]), library("a", &["f"])], Existing::Keep),
            library_error("a")
        );
        assert_eq!(
            put(&[library("c", &["x"]), library("c", &["y"])], Existing::Flush),
            library_error("c")
        );
        assert_eq!(put(&[library("c", &["H"])], Existing::Keep), function_error("H"));
        assert_eq!(put(&[library("a", &["h"])], Existing::Replace), function_error("h"));
        assert_eq!(
            put(&[library("c", &["x"]), library("d", &["X"])], Existing::Keep),
            function_error("X")
        );
        assert_eq!(functions.generation(), before);
        assert_eq!(names(&functions), ["A", "B", "f", "g", "h"]);
        put(&[library("a", &["i"])], Existing::Replace).unwrap();
        assert_eq!(names(&functions), ["A", "B", "h", "i"]);
        // A function may move to another library when that replaces all.
        put(&[library("c", &["h"])], Existing::Flush).unwrap();
        assert_eq!(names(&functions), ["C", "h"]);
        assert!(functions.delete(b"C").is_none() && functions.delete(b"c").is_some());
        assert!(functions.generation() > before);
        assert_eq!(functions.counts(), FunctionCounts::default());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let functions = functions();
        for name in ["a", "b", "c", "c"] {
            functions.put(vec![library(name, &[name])], Existing::Replace).unwrap();
        }
        let too_many = |result: Result<LibraryChange, NotTaken>| matches!(result, Err(NotTaken::TooMany(_)));
        assert!(too_many(functions.put(vec![library("d", &["d"])], Existing::Keep)));
        let large: Vec<String> = (0..100).map(|number| format!("f{number}")).collect();
        let large: Vec<&str> = large.iter().map(|name| &**name).collect();
        assert!(too_many(functions.put(vec![library("a", &large)], Existing::Replace)));
        assert!(too_many(functions.put(vec![library("a", &large)], Existing::Flush)));
        assert_eq!((functions.refused_libraries(), functions.refused_bytes()), (1, 2));
        assert_eq!(names(&functions), ["A", "B", "C", "a", "b", "c"]);
    }

    #[test]
    fn changes_are_taken_back_unless_others_came_after() {
        let functions = functions();
        functions
            .put(vec![library("a", &["f"]), library("b", &["g"])], Existing::Keep)
            .unwrap();
        let replaced = functions.put(vec![library("a", &["h"])], Existing::Replace).unwrap();
        let flushed = functions.flush();
        assert!(names(&functions).is_empty());
        functions.take_back(flushed);
        functions.take_back(replaced);
        assert_eq!(names(&functions), ["A", "B", "f", "g"]);
        let counts = functions.counts();
        let replaced = functions.put(vec![library("a", &["h"])], Existing::Replace).unwrap();
        functions.put(vec![library("a", &["i"])], Existing::Replace).unwrap();
        functions.take_back(replaced);
        assert_eq!(names(&functions), ["A", "B", "g", "i"], "another's library stays");
        let deleted = functions.delete(b"b").unwrap();
        functions.put(vec![library("c", &["G"])], Existing::Keep).unwrap();
        functions.take_back(deleted);
        assert_eq!(names(&functions), ["A", "C", "g", "i"], "its function is another's now");
        assert_eq!(functions.counts().libraries, counts.libraries);
    }
}
