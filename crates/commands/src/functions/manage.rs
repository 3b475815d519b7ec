//! FUNCTION DELETE, DUMP, FLUSH, KILL, LIST, STATS.

use super::payload;
use crate::CommandError;
use crate::glob::{Case, Glob};
use crate::node_view::ConnectionCall;
use crate::scripts::{RunKind, Running};
use tollgate_protocol::ReplyWriter;

/// `FUNCTION DELETE library-name`
pub(crate) fn delete(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let change = call.node.functions().delete(call.request.arg(2));
    let change = change.ok_or(CommandError::Refused("Library not found"))?;
    call.session.note_library_change(change);
    call.reply().ok();
    Ok(())
}

/// `FUNCTION FLUSH [ASYNC|SYNC]`
pub(crate) fn flush(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    if call.request.len() > 3 {
        return Err(CommandError::wrong_subcommand(call.request));
    }
    if let Some(word) = call.request.get(2)
        && !(word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC"))
    {
        return Err(CommandError::Refused("FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    let change = call.node.functions().flush();
    call.session.note_library_change(change);
    call.reply().ok();
    Ok(())
}

/// `FUNCTION DUMP`
pub(crate) fn dump(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let payload = payload::write(&call.node.functions().all());
    call.reply().bulk(&payload);
    Ok(())
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
pub(crate) fn list(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let (mut pattern, mut with_code) = (None, false);
    let mut options = call.request.iter().skip(2);
    while let Some(option) = options.next() {
        if !with_code && option.eq_ignore_ascii_case(b"WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && option.eq_ignore_ascii_case(b"LIBRARYNAME") {
            let given = options.next();
            pattern = Some(given.ok_or(CommandError::Refused("library name argument was not given"))?);
        } else {
            let option = CommandError::quote(option);
            return Err(CommandError::Other(format!("Unknown argument {option}")));
        }
    }
    let bytes_max = call.node.keyspace_limits().pattern_bytes_max;
    if pattern.is_some_and(|pattern| pattern.len() > bytes_max) {
        return Err(CommandError::PatternTooLong(bytes_max));
    }
    let mut libraries = call.node.functions().all();
    if let Some(pattern) = pattern {
        let glob = Glob::new(pattern, Case::Insensitive);
        libraries.retain(|library| glob.matches(library.name.as_bytes()));
    }
    let mut reply = call.reply();
    reply.array(libraries.len());
    for library in libraries {
        reply.map(if with_code { 4 } else { 3 });
        write_field(&mut reply, "library_name", &library.name);
        write_field(&mut reply, "engine", "LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            write_field(&mut reply, "name", &function.name);
            reply.bulk(b"description");
            match &function.description {
                Some(description) => reply.bulk(description),
                None => reply.null(),
            }
            reply.bulk(b"flags");
            let flags = function.flags.names();
            reply.set(flags.clone().count());
            flags.for_each(|flag| reply.simple(flag));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.text);
        }
    }
    Ok(())
}

fn write_field(reply: &mut ReplyWriter<'_>, field: &str, value: &str) {
    reply.bulk(field.as_bytes());
    reply.bulk(value.as_bytes());
}

/// `FUNCTION STATS`: of several functions that run, the one that has run for the longest time.
pub(crate) fn stats(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let running = call.node.scripts().oldest_function();
    let counts = call.node.functions().counts();
    let mut reply = call.reply();
    reply.map(2);
    reply.bulk(b"running_script");
    match running.as_deref() {
        Some(
            running @ Running {
                kind: RunKind::Function { name, command },
                ..
            },
        ) => {
            reply.map(3);
            write_field(&mut reply, "name", name);
            reply.bulk(b"command");
            reply.array(command.len());
            command.iter().for_each(|argument| reply.bulk(argument));
            reply.bulk(b"duration_ms");
            reply.int(running.duration_ms());
        }
        _ => reply.null(),
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for (field, count) in [
        ("libraries_count", counts.libraries),
        ("functions_count", counts.functions),
    ] {
        reply.bulk(field.as_bytes());
        reply.int(count as i64);
    }
    Ok(())
}

/// `FUNCTION KILL`
pub(crate) fn kill(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.node.scripts().kill(true)?;
    call.reply().ok();
    Ok(())
}

/// `FUNCTION HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "FUNCTION",
        &[
            "LOAD [REPLACE] <FUNCTION CODE>",
            "    Create a new library with the given library name and code.",
            "DELETE <LIBRARY NAME>",
            "    Delete the given library.",
            "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
            "    Return general information on all the libraries:",
            "    * Library name",
            "    * The engine used to run the Library",
            "    * Functions list",
            "    * Library code (if WITHCODE is given)",
            "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
            "STATS",
            "    Return information about the current function running:",
            "    * Function name",
            "    * Command used to run the function",
            "    * Duration in MS that the function is running",
            "    If no function is running, return nil",
            "    In addition, returns a list of available engines.",
            "KILL",
            "    Kill the current running function.",
            "FLUSH [ASYNC|SYNC]",
            "    Delete all the libraries.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the libraries.",
            "    * SYNC: Synchronously flush the libraries.",
            "DUMP",
            "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
            "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
            "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
            "    control how to handle existing libraries (default APPEND):",
            "    * FLUSH: delete all existing libraries.",
            "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
            "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
            "      libraries with the new libraries (notice that even on this option there is a chance of failure",
            "      in case of functions name collision with another library).",
        ],
    )
}
