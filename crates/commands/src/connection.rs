//! HELLO, AUTH, SELECT, PING, ECHO, QUIT, RESET.

use crate::client::set_connection_name;
use crate::node_view::ConnectionCall;
use crate::{CommandError, REDIS_VERSION};
use tollgate_protocol::{Proto, parse_integer};

/// The only user.
pub(crate) const USER: &[u8] = b"default";

/// `AUTH [username] password`
pub(crate) fn auth(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    match request.len() {
        2 if !call.node.needs_password() => {
            return Err(CommandError::Refused(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            ));
        }
        2 => authenticate(call, USER, request.arg(1))?,
        3 => authenticate(call, request.arg(1), request.arg(2))?,
        _ => return Err(CommandError::Syntax),
    }
    call.reply().ok();
    Ok(())
}

/// A wrong guess leaves the connection as it was, as in Redis.
fn authenticate(call: &mut ConnectionCall<'_>, user: &[u8], password: &[u8]) -> Result<(), CommandError> {
    let matches = call.node.password_matches(password);
    if !matches || user != USER {
        return Err(CommandError::WrongPass);
    }
    call.session.authenticated = true;
    Ok(())
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
pub(crate) fn hello(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    let proto = match request.get(1) {
        None => call.session.proto,
        Some(text) => match parse_integer(text) {
            Some(2) => Proto::Resp2,
            Some(3) => Proto::Resp3,
            Some(_) => return Err(CommandError::NoProto),
            None => {
                return Err(CommandError::Refused(
                    "Protocol version is not an integer or out of range",
                ));
            }
        },
    };
    let (mut credentials, mut name) = (None, None);
    let mut at = 2;
    while at < request.len() {
        let option = request.arg(at);
        let left = request.len() - at - 1;
        if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
            credentials = Some((request.arg(at + 1), request.arg(at + 2)));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
            let given = request.arg(at + 1);
            crate::client::check_connection_name(given)?;
            name = Some(given);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(&option[..option.len().min(128)]);
            return Err(CommandError::Other(format!("Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(call, user, password)?;
    }
    if !call.session.authenticated {
        return Err(CommandError::NoAuthHello);
    }
    if let Some(name) = name {
        set_connection_name(call.session, name)?;
    }
    call.session.proto = proto;
    call.session.note_change();
    describe(call);
    Ok(())
}

fn describe(call: &mut ConnectionCall<'_>) {
    // Ids count up from 1 and stay far below 2^63.
    let id = call.session.id as i64;
    let proto = match call.session.proto {
        Proto::Resp2 => 2,
        Proto::Resp3 => 3,
    };
    let mode = call.session.face.mode();
    let mut reply = call.reply();
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (field, value) in [("proto", proto), ("id", id)] {
        reply.bulk(field.as_bytes());
        reply.int(value);
    }
    for (field, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// `SELECT index`
pub(crate) fn select(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let index = parse_integer(call.request.arg(1))
        .filter(|&index| i32::try_from(index).is_ok())
        .ok_or(CommandError::NotAnInteger)?;
    if call.session.face.redirects() && index != 0 {
        return Err(CommandError::Refused("SELECT is not allowed in cluster mode"));
    }
    let db = u8::try_from(index).ok().filter(|&db| db < tollgate_store::DATABASES);
    call.session.db = db.ok_or(CommandError::Refused("DB index is out of range"))?;
    call.session.note_change();
    call.reply().ok();
    Ok(())
}

/// `PING [message]`
pub(crate) fn ping(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let message = match call.request.len() {
        1 => None,
        2 => Some(call.request.arg(1)),
        _ => return Err(CommandError::Arity("ping".to_owned())),
    };
    if call.session.subscriptions.is_some() && call.session.proto == Proto::Resp2 {
        // What a connection that listens reads looks like a message.
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(message.unwrap_or_default());
        return Ok(());
    }
    match message {
        None => call.reply().simple("PONG"),
        Some(message) => call.reply().bulk(message),
    }
    Ok(())
}

/// `ECHO message`
pub(crate) fn echo(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let message = call.request.arg(1);
    call.reply().bulk(message);
    Ok(())
}

/// `QUIT`
pub(crate) fn quit(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.session.close_after_reply = true;
    call.reply().ok();
    Ok(())
}

/// `RESET`
pub(crate) fn reset(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.session.reset(call.node);
    call.reply().simple("RESET");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::test_node::{TestNode, run, run_alone, session};
    use crate::test_request::{with_line, with_request};
    use tollgate_protocol::Proto;

    const HELLO_2: &str = "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

    fn alone(line: &str) -> String {
        run_alone(Proto::Resp2, line)
    }

    #[test]
    fn hello_describes_the_server() {
        assert_eq!(alone("HELLO"), HELLO_2);
        assert_eq!(alone("hello 2"), HELLO_2);
        let hello_3 = HELLO_2.replace("*14", "%7").replace("proto\r\n:2", "proto\r\n:3");
        assert_eq!(alone("HELLO 3"), hello_3);
        assert_eq!(run_alone(Proto::Resp3, "HELLO"), hello_3);
    }

    #[test]
    fn hello_refuses_with_the_texts_of_redis() {
        assert_eq!(alone("HELLO 4"), "-NOPROTO unsupported protocol version\r\n");
        assert_eq!(
            alone("HELLO a"),
            "-ERR Protocol version is not an integer or out of range\r\n"
        );
        assert_eq!(alone("HELLO 3 auth"), "-ERR Syntax error in HELLO option 'auth'\r\n");
        assert_eq!(alone("HELLO 3 foo"), "-ERR Syntax error in HELLO option 'foo'\r\n");
        let node = TestNode::default();
        let mut session = session(&node, 1);
        let args: [&[u8]; 4] = [b"HELLO", b"3", b"SETNAME", b"a b"];
        let reply = with_request(&args, |request| run(&node, &mut session, request));
        assert_eq!(
            reply,
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"
        );
        assert_eq!(session.proto, Proto::Resp2);
    }

    #[test]
    fn a_password_must_come_first() {
        let node = TestNode {
            password: Some(b"secret".to_vec()),
            ..TestNode::default()
        };
        let mut session = session(&node, 1);
        let mut say = |line: &str| with_line(line, |request| run(&node, &mut session, request));
        assert_eq!(say("PING"), "-NOAUTH Authentication required.\r\n");
        assert_eq!(say("CLIENT ID"), "-NOAUTH Authentication required.\r\n");
        assert!(say("foo").starts_with("-ERR unknown command 'foo'"));
        assert!(say("HELLO 3").starts_with("-NOAUTH HELLO must be called with the client already authenticated"));
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
        for line in [
            "AUTH guess",
            "AUTH default guess",
            "AUTH other secret",
            "HELLO 3 AUTH default guess",
        ] {
            assert_eq!(say(line), wrong, "{line}");
        }
        assert_eq!(say("AUTH a b c"), "-ERR syntax error\r\n");
        assert_eq!(say("PING"), "-NOAUTH Authentication required.\r\n");
        assert!(say("HELLO 3 AUTH default secret SETNAME me").starts_with("%7\r\n"));
        assert_eq!(say("CLIENT GETNAME"), "$2\r\nme\r\n");
        assert_eq!(say("AUTH guess"), wrong);
        assert_eq!(say("PING"), "+PONG\r\n");
        assert_eq!(say("RESET"), "+RESET\r\n");
        assert_eq!(say("PING"), "-NOAUTH Authentication required.\r\n");
        assert_eq!(say("AUTH secret"), "+OK\r\n");
        assert_eq!(say("CLIENT GETNAME"), "$-1\r\n");
    }

    #[test]
    fn auth_without_a_password() {
        assert!(alone("AUTH x").starts_with("-ERR AUTH <password> called without any password configured"));
        assert_eq!(alone("AUTH default anything"), "+OK\r\n");
        assert!(alone("AUTH x y").starts_with("-WRONGPASS "));
    }

    #[test]
    fn select_takes_16_databases() {
        assert_eq!(alone("SELECT 15"), "+OK\r\n");
        assert_eq!(alone("SELECT 16"), "-ERR DB index is out of range\r\n");
        assert_eq!(alone("SELECT -1"), "-ERR DB index is out of range\r\n");
        assert_eq!(alone("SELECT a"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(
            alone("SELECT 99999999999"),
            "-ERR value is not an integer or out of range\r\n"
        );
    }

    #[test]
    fn ping_echo_quit() {
        assert_eq!(alone("PING hi"), "$2\r\nhi\r\n");
        assert_eq!(
            alone("PING a b"),
            "-ERR wrong number of arguments for 'ping' command\r\n"
        );
        assert_eq!(alone("ECHO hi"), "$2\r\nhi\r\n");
        let node = TestNode::default();
        let mut session = session(&node, 1);
        assert_eq!(
            with_line("QUIT", |request| run(&node, &mut session, request)),
            "+OK\r\n"
        );
        assert!(session.close_after_reply);
    }
}
