//! CLIENT UNBLOCK, PAUSE, UNPAUSE, REPLY, and what is left of client-side caching where there is none.

use crate::blocking::timeout_ms_of;
use crate::node_view::ConnectionCall;
use crate::session::ReplyMode;
use crate::{CommandError, Session};
use tollgate_protocol::{Request, parse_integer};

/// `CLIENT UNBLOCK client-id [TIMEOUT|ERROR]`
pub(crate) fn unblock(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    let with_error = match request.get(3) {
        None => false,
        Some(_) if request.len() > 4 => return Err(CommandError::wrong_subcommand(request)),
        Some(reason) if reason.eq_ignore_ascii_case(b"TIMEOUT") => false,
        Some(reason) if reason.eq_ignore_ascii_case(b"ERROR") => true,
        Some(_) => {
            return Err(CommandError::Refused(
                "CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
    };
    let id = parse_integer(request.arg(2)).ok_or(CommandError::NotAnInteger)?;
    let unblocked = u64::try_from(id).is_ok_and(|id| call.node.unblock_client(id, with_error));
    call.reply().int(i64::from(unblocked));
    Ok(())
}

/// `CLIENT PAUSE timeout [WRITE|ALL]`
pub(crate) fn pause(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    let all = match request.get(3) {
        None => true,
        Some(_) if request.len() > 4 => return Err(CommandError::wrong_subcommand(request)),
        Some(mode) if mode.eq_ignore_ascii_case(b"WRITE") => false,
        Some(mode) if mode.eq_ignore_ascii_case(b"ALL") => true,
        Some(_) => return Err(CommandError::Refused("CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_us = timeout_ms_of(request.arg(2))?.map_or(0, |timeout| timeout.as_micros());
    let timeout_us = u64::try_from(timeout_us).unwrap_or(u64::MAX);
    call.node.pause_clients(call.env.now_us.saturating_add(timeout_us), all);
    call.reply().ok();
    Ok(())
}

/// `CLIENT UNPAUSE`
pub(crate) fn unpause(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.node.unpause_clients();
    call.reply().ok();
    Ok(())
}

/// `CLIENT REPLY ON|OFF|SKIP`. Only ON is answered.
pub(crate) fn reply(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let mode = call.request.arg(2);
    if mode.eq_ignore_ascii_case(b"ON") {
        call.session.replies = ReplyMode::On;
        call.reply().ok();
    } else if mode.eq_ignore_ascii_case(b"OFF") {
        call.session.replies = ReplyMode::Off;
    } else if mode.eq_ignore_ascii_case(b"SKIP") {
        if call.session.replies != ReplyMode::Off {
            call.session.replies = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

/// `CLIENT GETREDIR`: -1 for a connection that tracks no keys.
pub(crate) fn get_redir(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.reply().int(-1);
    Ok(())
}

/// `CLIENT TRACKINGINFO`: tracking is off.
pub(crate) fn tracking_info(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let mut reply = call.reply();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.int(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
    Ok(())
}

/// `CLIENT CACHING YES|NO`
pub(crate) fn caching(_: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    Err(CommandError::Refused(
        "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    ))
}

/// `CLIENT TRACKING ON|OFF [REDIRECT client-id] [PREFIX prefix [...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`. No invalidations are sent
/// here, so ON is refused; OFF is what it is.
pub(crate) fn tracking(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    check_tracking_options(call.request)?;
    let switch = call.request.arg(2);
    if switch.eq_ignore_ascii_case(b"ON") {
        return Err(CommandError::Refused(
            "client-side caching is not supported: this server sends no invalidation messages",
        ));
    }
    if !switch.eq_ignore_ascii_case(b"OFF") {
        return Err(CommandError::Syntax);
    }
    call.reply().ok();
    Ok(())
}

fn check_tracking_options(request: Request<'_>) -> Result<(), CommandError> {
    let mut at = 3;
    while let Some(option) = request.get(at) {
        let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
        if (is(b"REDIRECT") || is(b"PREFIX")) && at + 1 < request.len() {
            if is(b"REDIRECT") {
                parse_integer(request.arg(at + 1)).ok_or(CommandError::NotAnInteger)?;
            }
            at += 1;
        } else if ![&b"BCAST"[..], b"OPTIN", b"OPTOUT", b"NOLOOP"]
            .iter()
            .any(|word| is(word))
        {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    Ok(())
}

impl Session {
    /// A command has been answered, or not: CLIENT REPLY SKIP is for one only.
    pub fn next_reply(&mut self) {
        self.replies = match self.replies {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::session::ReplyMode;
    use crate::test_node::{TestNode, run, run_alone, session};
    use crate::test_request::with_line;
    use tollgate_protocol::Proto::{Resp2, Resp3};

    #[test]
    fn pause_until_the_time_that_is_given() {
        let node = TestNode::default();
        let mut session = session(&node, 1);
        let mut say = |line: &str| with_line(line, |request| run(&node, &mut session, request));
        assert_eq!(say("CLIENT PAUSE 1000"), "+OK\r\n");
        assert_eq!(say("CLIENT PAUSE 5 write"), "+OK\r\n");
        assert_eq!(say("CLIENT UNPAUSE"), "+OK\r\n");
        assert_eq!(say("CLIENT PAUSE 0 ALL"), "+OK\r\n");
        let now_us = 5_000_000;
        assert_eq!(
            *node.paused.borrow(),
            [
                Some((now_us + 1_000_000, true)),
                Some((now_us + 5_000, false)),
                None,
                Some((now_us, true))
            ]
        );
    }

    #[test]
    fn replies_are_for_one_command_or_until_they_are_wanted_again() {
        let node = TestNode::default();
        let mut session = session(&node, 1);
        let mut modes = |line: &str| {
            let reply = with_line(line, |request| run(&node, &mut session, request));
            session.next_reply();
            (reply, session.replies)
        };
        assert_eq!(modes("CLIENT REPLY skip"), (String::new(), ReplyMode::Skip));
        assert_eq!(modes("PING").1, ReplyMode::On);
        assert_eq!(modes("CLIENT REPLY off"), (String::new(), ReplyMode::Off));
        assert_eq!(modes("CLIENT REPLY SKIP"), (String::new(), ReplyMode::Off));
        assert_eq!(modes("CLIENT REPLY on"), ("+OK\r\n".to_owned(), ReplyMode::On));
        assert_eq!(
            modes("CLIENT REPLY x"),
            ("-ERR syntax error\r\n".to_owned(), ReplyMode::On)
        );
        modes("CLIENT REPLY off");
        assert_eq!(modes("RESET"), ("+RESET\r\n".to_owned(), ReplyMode::On));
    }

    #[test]
    fn tracking_is_refused_unless_it_is_off() {
        assert_eq!(run_alone(Resp2, "CLIENT TRACKING off BCAST"), "+OK\r\n");
        assert!(run_alone(Resp2, "CLIENT TRACKING on").starts_with("-ERR client-side caching is not supported"));
        assert_eq!(run_alone(Resp2, "CLIENT TRACKING on foo"), "-ERR syntax error\r\n");
        assert_eq!(
            run_alone(Resp3, "CLIENT TRACKINGINFO"),
            "%3\r\n$5\r\nflags\r\n~1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n"
        );
    }

    #[test]
    fn unblock_reads_its_arguments() {
        assert_eq!(run_alone(Resp2, "CLIENT UNBLOCK 7 error"), ":0\r\n");
        assert_eq!(run_alone(Resp2, "CLIENT UNBLOCK -7"), ":0\r\n");
        assert!(run_alone(Resp2, "CLIENT UNBLOCK x later").contains("reason should be TIMEOUT or ERROR"));
        assert!(run_alone(Resp2, "CLIENT UNBLOCK 1 error x").contains("unknown subcommand or wrong number"));
    }
}
