//! HELLO, AUTH, SELECT, PING, ECHO, QUIT, RESET.

use crate::client::set_connection_name;
use crate::node_view::ConnectionCall;
use crate::number::integer;
use crate::{CommandError, REDIS_VERSION};
use tollgate_protocol::Proto;

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
        Some(text) => match integer(text) {
            Some(2) => Proto::Resp2,
            Some(3) => Proto::Resp3,
            Some(_) => return Err(CommandError::NoProto),
            None => return Err(CommandError::Refused("Protocol version is not an integer or out of range")),
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
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// `SELECT index`
pub(crate) fn select(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let index = integer(call.request.arg(1))
        .filter(|&index| i32::try_from(index).is_ok())
        .ok_or(CommandError::NotAnInteger)?;
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
