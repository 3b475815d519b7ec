//! SCRIPT EXISTS, FLUSH, KILL, LOAD.

use crate::CommandError;
use crate::node_view::ConnectionCall;

/// `SCRIPT LOAD script`
pub(crate) fn load(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let source = call.node.scripts().load(call.request.arg(2))?;
    call.reply().bulk(&source.sha);
    Ok(())
}

/// `SCRIPT EXISTS sha1 [sha1 ...]`
pub(crate) fn exists(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let (request, node) = (call.request, call.node);
    let mut reply = call.reply();
    reply.array(request.len() - 2);
    for sha in request.iter().skip(2) {
        reply.int(i64::from(node.scripts().find(sha).is_some()));
    }
    Ok(())
}

/// `SCRIPT FLUSH [ASYNC|SYNC]`
pub(crate) fn flush(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    if let Some(word) = call.request.get(2)
        && !(word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC"))
    {
        return Err(CommandError::Refused("SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    call.node.scripts().flush();
    call.reply().ok();
    Ok(())
}

/// `SCRIPT KILL`
pub(crate) fn kill(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.node.scripts().kill(false)?;
    call.reply().ok();
    Ok(())
}

/// `SCRIPT HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "SCRIPT",
        &[
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            "    When called without the optional mode argument, the behavior is determined",
            "    by the lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the scripts cache.",
            "    * SYNC: Synchronously flush the scripts cache.",
            "KILL",
            "    Kill the currently executing Lua script.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
        ],
    )
}
