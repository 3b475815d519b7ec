//! FUNCTION LOAD and FUNCTION RESTORE: libraries run once, to say which functions they have.

use super::library::{Function, Header, Library, WRONG_NAME, check_name};
use super::payload::{self, PayloadError};
use super::registry::{Existing, Functions, FunctionsLimits, LibraryChange, NotTaken};
use super::versions::Version;
use crate::{CommandError, ScriptCommand};
use std::collections::HashSet;
use std::sync::Arc;
use tollgate_eval::{
    Engine, Failure, Host, HostAnswer, LogLevel, Registration, ReplySink, Resp, Run, ScriptError, Tape,
};
use tollgate_protocol::{ReplyWriter, Request};

/// Libraries that are being loaded, one after the other. They are taken together in the end.
pub(crate) struct Loading {
    /// Those that have not begun, the last first.
    pending: Vec<Box<[u8]>>,
    current: Option<Registering>,
    loaded: Vec<Arc<Library>>,
    existing: Existing,
    is_restore: bool,
    limits: FunctionsLimits,
    /// Of those that are loaded.
    bytes: usize,
    /// Which change of another node it is, if it is one.
    pub(crate) version: Option<Version>,
}

/// A library that is running.
struct Registering {
    header: Header,
    text: Box<[u8]>,
    functions: Vec<Function>,
    /// Their names in lower case.
    names: HashSet<Box<[u8]>>,
    /// What the library is counted with so far, and may be.
    bytes: usize,
    bytes_max: usize,
    is_too_large: bool,
}

impl Loading {
    /// What FUNCTION LOAD or FUNCTION RESTORE asks for.
    ///
    /// # Errors
    /// The request is wrong, or a library of that name is there.
    pub(crate) fn new(
        functions: &Functions,
        command: ScriptCommand,
        request: Request<'_>,
    ) -> Result<Self, CommandError> {
        let is_restore = command == ScriptCommand::FunctionRestore;
        let (pending, existing) = match is_restore {
            false => read_load(functions, request)?,
            true => read_restore(functions, request)?,
        };
        Ok(Self {
            pending,
            current: None,
            loaded: Vec::new(),
            existing,
            is_restore,
            limits: functions.limits(),
            bytes: 0,
            version: None,
        })
    }

    /// Starts the next library; `None` if that was the last.
    pub(crate) fn start(&mut self, engine: &Engine) -> Result<Option<Run>, CommandError> {
        let Some(text) = self.pending.pop() else {
            return Ok(None);
        };
        let header = Header::read(&text)?;
        let run = engine
            .load_library(&text[header.code_start..])
            .map_err(|error| CommandError::Script(error.to_string().into_bytes()))?;
        self.current = Some(Registering {
            header,
            functions: Vec::new(),
            names: HashSet::new(),
            bytes: self.bytes + text.len(),
            bytes_max: self.limits.bytes,
            is_too_large: false,
            text,
        });
        Ok(Some(run))
    }

    /// Whether there are libraries that have not begun.
    pub(crate) fn has_more(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What the library that runs reaches.
    pub(crate) fn host(&mut self) -> impl Host + '_ {
        LoadHost(self.current.as_mut())
    }

    /// The library has run.
    pub(crate) fn finish(&mut self) -> Result<(), CommandError> {
        let Some(library) = self.current.take() else {
            return Ok(());
        };
        if library.functions.is_empty() {
            return Err(CommandError::Refused("No functions registered"));
        }
        self.bytes = library.bytes;
        let library = Library::new(library.header, library.text, library.functions);
        self.loaded.push(Arc::new(library));
        Ok(())
    }

    /// The library has failed: what the client reads.
    pub(crate) fn failed(&self, functions: &Functions, mut error: ScriptError) -> Vec<u8> {
        if self.current.as_ref().is_some_and(|library| library.is_too_large) {
            return self.not_taken(functions.refuse_bytes()).to_string().into_bytes();
        }
        match error.failure {
            Failure::Raised => {
                error.line = None;
                [b"ERR Error registering functions: ", &*error.to_reply("")].concat()
            }
            _ => self.killed(&error),
        }
    }

    /// The library was stopped: what the client reads.
    pub(crate) fn killed(&self, error: &ScriptError) -> Vec<u8> {
        let name = self.current.as_ref().map(|library| &*library.header.name);
        error.to_reply(name.unwrap_or_default())
    }

    /// All have run: they take effect, and the reply is written.
    pub(crate) fn take_effect(
        &mut self,
        functions: &Functions,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<LibraryChange, CommandError> {
        let libraries = std::mem::take(&mut self.loaded);
        let name = libraries.first().map(|library| library.name.clone());
        let put = match (&self.version, libraries.first()) {
            (Some(version), Some(library)) => functions.put_at(Arc::clone(library), version),
            _ => functions.put(libraries, self.existing),
        };
        let change = put.map_err(|not_taken| self.not_taken(not_taken))?;
        match name {
            Some(name) if !self.is_restore => reply.bulk(name.as_bytes()),
            _ => reply.ok(),
        }
        Ok(change)
    }

    fn not_taken(&self, not_taken: NotTaken) -> CommandError {
        match not_taken {
            NotTaken::Library(name) if self.is_restore => CommandError::Other(format!("Library {name} already exists")),
            NotTaken::Library(name) => already_exists(&name),
            NotTaken::Function(name) => CommandError::Other(format!("Function {name} already exists")),
            NotTaken::TooMany(limits) => CommandError::TooManyLibraries(limits),
        }
    }
}

fn already_exists(library: &str) -> CommandError {
    CommandError::Other(format!("Library '{library}' already exists"))
}

type Asked = (Vec<Box<[u8]>>, Existing);

/// `FUNCTION LOAD [REPLACE] code`
fn read_load(functions: &Functions, request: Request<'_>) -> Result<Asked, CommandError> {
    let code = request.len() - 1;
    let mut existing = Existing::Keep;
    for option in request.iter().take(code).skip(2) {
        if !option.eq_ignore_ascii_case(b"REPLACE") {
            let option = CommandError::quote(option);
            return Err(CommandError::Other(format!("Unknown option given: {option}")));
        }
        existing = Existing::Replace;
    }
    let text = request.arg(code);
    let header = Header::read(text)?;
    if existing == Existing::Keep && functions.has(&header.name) {
        return Err(already_exists(&header.name));
    }
    Ok((vec![text.into()], existing))
}

/// `FUNCTION RESTORE payload [APPEND|REPLACE|FLUSH]`
fn read_restore(functions: &Functions, request: Request<'_>) -> Result<Asked, CommandError> {
    if request.len() > 4 {
        return Err(CommandError::wrong_subcommand(request));
    }
    let existing = match request.get(3) {
        None => Existing::Keep,
        Some(word) if word.eq_ignore_ascii_case(b"APPEND") => Existing::Keep,
        Some(word) if word.eq_ignore_ascii_case(b"REPLACE") => Existing::Replace,
        Some(word) if word.eq_ignore_ascii_case(b"FLUSH") => Existing::Flush,
        Some(_) => {
            return Err(CommandError::Refused(
                "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let payload = request.arg(2);
    let limits = functions.limits();
    // Before the checksum of it is made, which takes a while.
    if payload.len() > limits.bytes.saturating_add(payload::overhead_bytes(limits.libraries)) {
        functions.refuse_bytes();
        return Err(CommandError::TooManyLibraries(limits));
    }
    let texts = payload::read(payload).map_err(|error| match error {
        PayloadError::Checksum => CommandError::Refused("DUMP payload version or checksum are wrong"),
        PayloadError::Contents => CommandError::Refused("failed loading the given functions payload"),
    })?;
    Ok((texts.into_iter().rev().map(Box::from).collect(), existing))
}

/// What a library reaches while it is loaded: nothing but the log, and the list of its functions.
struct LoadHost<'a>(Option<&'a mut Registering>);

impl Host for LoadHost<'_> {
    fn call(&mut self, _: Request<'_>, _: Resp, reply: &mut Tape) -> HostAnswer {
        reply.error(b"ERR redis.call cannot be used here");
        HostAnswer::Replied
    }

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        crate::scripts::log(level, message);
    }

    fn register(&mut self, function: &Registration<'_>) -> Result<bool, String> {
        let Some(library) = &mut self.0 else {
            return Ok(false);
        };
        check_name(function.name).map_err(|_| WRONG_NAME.to_owned())?;
        // FCALL takes names in any case, so two that differ in that alone could not be told apart.
        if !library.names.insert(function.name.to_ascii_lowercase().into()) {
            return Err("Function already exists in the library".to_owned());
        }
        let function = Function {
            name: String::from_utf8_lossy(function.name).into(),
            description: function.description.map(Box::from),
            flags: function.flags,
        };
        library.bytes += function.bytes();
        if library.bytes > library.bytes_max {
            library.is_too_large = true;
            return Err("too many functions".to_owned());
        }
        library.functions.push(function);
        Ok(false)
    }
}
