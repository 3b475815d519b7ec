//! The libraries that a worker has compiled.

use super::library::{Function, Library};
use super::registry::{FoundFunction, Functions};
use crate::CommandError;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tollgate_eval::Engine;

/// A library, compiled for calls.
pub(crate) struct CompiledLibrary {
    source: Arc<Library>,
    pub(crate) code: tollgate_eval::Library,
}

/// A function that can be called.
#[derive(Clone)]
pub(crate) struct Callable {
    pub(crate) library: Rc<CompiledLibrary>,
    found: FoundFunction,
}

impl Callable {
    /// The function.
    pub(crate) fn function(&self) -> &Function {
        self.found.function()
    }
}

/// What a worker has compiled.
#[derive(Default)]
pub(crate) struct CompiledLibraries {
    by_name: HashMap<Box<str>, Rc<CompiledLibrary>>,
    generation: u64,
    /// The function that was asked for last, by the name that it was asked for by: most clients ask for the same again.
    last: Option<(Box<[u8]>, Callable)>,
}

impl CompiledLibraries {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Drops all.
    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.last = None;
    }

    /// The function of that name, if it was the last that was asked for, and nothing has changed since.
    pub(crate) fn last(&mut self, engine: &Engine, functions: &Functions, name: &[u8]) -> Option<Callable> {
        let generation = functions.generation();
        if self.generation != generation {
            self.generation = generation;
            self.last = None;
            let before = self.by_name.len();
            self.by_name.retain(|_, library| functions.is_current(&library.source));
            if self.by_name.len() < before {
                engine.collect_later();
            }
        }
        let (last, callable) = self.last.as_ref()?;
        (**last == *name).then(|| callable.clone())
    }

    /// A function whose library is compiled.
    pub(crate) fn get(&mut self, found: &FoundFunction, name: &[u8]) -> Option<Callable> {
        let library = self.by_name.get(&found.library.name)?;
        if !Arc::ptr_eq(&library.source, &found.library) {
            return None;
        }
        let callable = Callable {
            library: Rc::clone(library),
            found: found.clone(),
        };
        self.last = Some((name.into(), callable.clone()));
        Some(callable)
    }

    /// Compiles the library of a function.
    pub(crate) fn compile(&mut self, engine: &Engine, found: &FoundFunction) -> Result<(), CommandError> {
        let source = Arc::clone(&found.library);
        let code = engine
            .compile_library(source.code())
            .map_err(|error| CommandError::Script(error.to_string().into_bytes()))?;
        let library = CompiledLibrary { source, code };
        self.by_name.insert(found.library.name.clone(), Rc::new(library));
        Ok(())
    }
}
