//! CLIENT: what a connection says of itself. The list of connections is in `client_list`.

use crate::node_view::ConnectionCall;
use crate::session::CLIENT_NAME_MAX_BYTES;
use crate::{CommandError, Session};

/// Redis takes printable ASCII without blanks, so that CLIENT LIST stays readable for programs.
fn is_clean(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

pub(crate) fn check_connection_name(name: &[u8]) -> Result<(), CommandError> {
    if !is_clean(name) {
        return Err(CommandError::Refused(
            "Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    check_length("Client names", name)
}

fn check_length(what: &str, text: &[u8]) -> Result<(), CommandError> {
    if text.len() > CLIENT_NAME_MAX_BYTES {
        return Err(CommandError::Other(format!(
            "{what} cannot be longer than {CLIENT_NAME_MAX_BYTES} bytes."
        )));
    }
    Ok(())
}

/// Names a connection; an empty name takes the name away.
pub(crate) fn set_connection_name(session: &mut Session, name: &[u8]) -> Result<(), CommandError> {
    check_connection_name(name)?;
    session.name = name.into();
    session.note_change();
    Ok(())
}

/// `CLIENT SETNAME connection-name`
pub(crate) fn set_name(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    set_connection_name(call.session, call.request.arg(2))?;
    call.reply().ok();
    Ok(())
}

/// `CLIENT GETNAME`
pub(crate) fn get_name(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let name = std::mem::take(&mut call.session.name);
    if name.is_empty() {
        call.reply().null();
    } else {
        call.reply().bulk(&name);
    }
    call.session.name = name;
    Ok(())
}

/// `CLIENT SETINFO LIB-NAME|LIB-VER value`
pub(crate) fn set_info(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let (attribute, value) = (call.request.arg(2), call.request.arg(3));
    let is_name = attribute.eq_ignore_ascii_case(b"LIB-NAME");
    if !is_name && !attribute.eq_ignore_ascii_case(b"LIB-VER") {
        let shown = String::from_utf8_lossy(&attribute[..attribute.len().min(128)]);
        return Err(CommandError::Other(format!("Unrecognized option '{shown}'")));
    }
    // One of the two words in some case.
    let attribute = String::from_utf8_lossy(attribute);
    if !is_clean(value) {
        return Err(CommandError::Other(format!(
            "{attribute} cannot contain spaces, newlines or special characters."
        )));
    }
    check_length(&attribute, value)?;
    if is_name {
        call.session.lib_name = value.into();
    } else {
        call.session.lib_ver = value.into();
    }
    call.session.note_change();
    call.reply().ok();
    Ok(())
}

/// `CLIENT ID`
pub(crate) fn id(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let id = call.session.id as i64;
    call.reply().int(id);
    Ok(())
}

fn on_or_off(word: &[u8]) -> Result<bool, CommandError> {
    if word.eq_ignore_ascii_case(b"ON") {
        Ok(true)
    } else if word.eq_ignore_ascii_case(b"OFF") {
        Ok(false)
    } else {
        Err(CommandError::Syntax)
    }
}

/// `CLIENT NO-EVICT ON|OFF`. No connection is ever closed to free memory for others, so the flag is only shown.
pub(crate) fn no_evict(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.session.no_evict = on_or_off(call.request.arg(2))?;
    call.session.note_change();
    call.reply().ok();
    Ok(())
}

/// `CLIENT NO-TOUCH ON|OFF`. No command notes when a key was used, so the flag is only shown.
pub(crate) fn no_touch(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.session.no_touch = on_or_off(call.request.arg(2))?;
    call.session.note_change();
    call.reply().ok();
    Ok(())
}

/// `CLIENT INFO`
pub(crate) fn info(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let mut text = call.session.info().line(call.env.now_us);
    text.push('\n');
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

/// `CLIENT HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "CLIENT",
        &[
            "CACHING (YES|NO)",
            "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
            "GETREDIR",
            "    Return the client ID we are redirecting to when tracking is enabled.",
            "GETNAME",
            "    Return the name of the current connection.",
            "ID",
            "    Return the ID of the current connection.",
            "INFO",
            "    Return information about the current client connection.",
            "KILL <ip:port>",
            "    Kill connection made from <ip:port>.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Kill connections. Options are:",
            "    * ADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made from the specified address",
            "    * LADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made to specified local address",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Kill connections by type.",
            "    * USER <username>",
            "      Kill connections authenticated by <username>.",
            "    * SKIPME (YES|NO)",
            "      Skip killing current connection (default: yes).",
            "LIST [options ...]",
            "    Return information about client connections. Options:",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Return clients of specified type.",
            "UNPAUSE",
            "    Stop the current client pause, resuming traffic.",
            "PAUSE <timeout> [WRITE|ALL]",
            "    Suspend all, or just write, clients for <timeout> milliseconds.",
            "REPLY (ON|OFF|SKIP)",
            "    Control the replies sent to the current connection.",
            "SETNAME <name>",
            "    Assign the name <name> to the current connection.",
            "SETINFO <option> <value>",
            "    Set client meta attr. Options are:",
            "    * LIB-NAME: the client lib name.",
            "    * LIB-VER: the client lib version.",
            "UNBLOCK <clientid> [TIMEOUT|ERROR]",
            "    Unblock the specified blocked client.",
            "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
            "         [OPTIN] [OPTOUT] [NOLOOP]",
            "    Control server assisted client side caching.",
            "TRACKINGINFO",
            "    Report tracking status for the current connection.",
            "NO-EVICT (ON|OFF)",
            "    Protect current client connection from eviction.",
            "NO-TOUCH (ON|OFF)",
            "    Will not touch LRU/LFU stats when this mode is on.",
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_node::{TestNode, run, run_alone, session};
    use crate::test_request::{with_line, with_request};
    use tollgate_protocol::Proto;

    fn alone(line: &str) -> String {
        run_alone(Proto::Resp2, line)
    }

    #[test]
    fn names_and_library() {
        let node = TestNode::default();
        let mut session = session(&node, 7);
        let mut say = |line: &str| with_line(line, |request| run(&node, &mut session, request));
        assert_eq!(say("CLIENT ID"), ":7\r\n");
        assert_eq!(say("CLIENT GETNAME"), "$-1\r\n");
        assert_eq!(say("CLIENT SETNAME worker-1"), "+OK\r\n");
        assert_eq!(say("CLIENT GETNAME"), "$8\r\nworker-1\r\n");
        assert_eq!(say("CLIENT SETINFO LIB-NAME redis-py(x)"), "+OK\r\n");
        assert_eq!(say("client setinfo lib-ver 5.0"), "+OK\r\n");
        assert_eq!(
            say("CLIENT SETINFO lib-foo x"),
            "-ERR Unrecognized option 'lib-foo'\r\n"
        );
        assert_eq!(say("CLIENT NO-EVICT on"), "+OK\r\n");
        assert_eq!(say("CLIENT NO-TOUCH maybe"), "-ERR syntax error\r\n");
        let line = "id=7 addr=127.0.0.1:40007 laddr=127.0.0.1:6379 name=worker-1 age=4 idle=0 flags=e db=0 sub=0 psub=0 ssub=0 \
                    multi=-1 events=r cmd=client|info user=default redir=-1 resp=2 lib-name=redis-py(x) lib-ver=5.0\n";
        assert_eq!(say("CLIENT INFO"), format!("${}\r\n{line}\r\n", line.len()));
        let args: [&[u8]; 4] = [b"CLIENT", b"SETINFO", b"LIB-VER", b"a b"];
        let reply = with_request(&args, |request| run(&node, &mut session, request));
        assert_eq!(
            reply,
            "-ERR LIB-VER cannot contain spaces, newlines or special characters.\r\n"
        );
        let long = "n".repeat(CLIENT_NAME_MAX_BYTES + 1);
        let reply = with_line(&format!("CLIENT SETNAME {long}"), |request| {
            run(&node, &mut session, request)
        });
        assert_eq!(reply, "-ERR Client names cannot be longer than 4096 bytes.\r\n");
        assert_eq!(session.name(), b"worker-1");
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        for sub in ["MAINT_NOTIFICATIONS", "CAPA"] {
            assert_eq!(
                alone(&format!("CLIENT {sub} on")),
                format!("-ERR unknown subcommand '{sub}'. Try CLIENT HELP.\r\n")
            );
        }
    }
}
