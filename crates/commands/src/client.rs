//! CLIENT: names, and the list of connections.

use crate::connection::USER;
use crate::node_view::{ClientInfo, ConnectionCall};
use crate::number::integer;
use crate::session::CLIENT_NAME_MAX_BYTES;
use crate::{CommandError, Session};
use std::fmt::Write as _;
use std::net::SocketAddr;
use tollgate_protocol::{Proto, Request};

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
        return Err(CommandError::Other(format!("{what} cannot be longer than {CLIENT_NAME_MAX_BYTES} bytes.")));
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

/// `CLIENT LIST [TYPE type] [ID id [id ...]]`; Redis takes one of the two.
pub(crate) fn list(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    let mut ids: Option<Vec<u64>> = None;
    let mut kind = ClientType::Normal;
    match request.get(2) {
        None => {}
        Some(option) if option.eq_ignore_ascii_case(b"TYPE") && request.len() == 4 => kind = ClientType::parse(request.arg(3))?,
        Some(option) if option.eq_ignore_ascii_case(b"ID") && request.len() > 3 => {
            let parse = |text| integer(text).and_then(|id| u64::try_from(id).ok());
            let given = request.iter().skip(3).map(parse).collect::<Option<_>>();
            ids = Some(given.ok_or(CommandError::Refused("Invalid client ID"))?);
        }
        Some(_) => return Err(CommandError::Syntax),
    }
    let mut text = String::new();
    if kind == ClientType::Normal {
        let own = call.session.info();
        for client in call.node.clients() {
            if ids.as_ref().is_some_and(|ids| !ids.contains(&client.id)) {
                continue;
            }
            // What the node knows of this connection may be older than what it knows of itself.
            let shown = if client.id == own.id { &own } else { &client };
            text.push_str(&shown.line(call.env.now_us));
            text.push('\n');
        }
    }
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

/// The kinds of clients that Redis tells apart. Here all are normal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientType {
    Normal,
    Other,
}

impl ClientType {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        if word.eq_ignore_ascii_case(b"normal") {
            return Ok(Self::Normal);
        }
        let others = [&b"slave"[..], b"replica", b"pubsub", b"master"];
        if others.iter().any(|other| word.eq_ignore_ascii_case(other)) {
            return Ok(Self::Other);
        }
        let shown = String::from_utf8_lossy(&word[..word.len().min(128)]);
        Err(CommandError::Other(format!("Unknown client type '{shown}'")))
    }
}

/// Which connections to kill.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<u64>,
    kind: Option<ClientType>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    /// The form `CLIENT KILL ip:port` closes the connection that sends it, too.
    spare_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(request: Request<'a>) -> Result<Self, CommandError> {
        if request.len() == 3 {
            return Ok(Self {
                address: Some(request.arg(2)),
                ..Self::default()
            });
        }
        let mut filter = Self {
            spare_me: true,
            ..Self::default()
        };
        let mut at = 2;
        while at < request.len() {
            let (option, Some(value)) = (request.arg(at), request.get(at + 1)) else {
                return Err(CommandError::Syntax);
            };
            if option.eq_ignore_ascii_case(b"ID") {
                let id = integer(value).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
                filter.id = Some(id.ok_or(CommandError::Refused("client-id should be greater than 0"))?);
            } else if option.eq_ignore_ascii_case(b"TYPE") {
                filter.kind = Some(ClientType::parse(value)?);
            } else if option.eq_ignore_ascii_case(b"ADDR") {
                filter.address = Some(value);
            } else if option.eq_ignore_ascii_case(b"LADDR") {
                filter.local_address = Some(value);
            } else if option.eq_ignore_ascii_case(b"USER") {
                if value != USER {
                    let shown = String::from_utf8_lossy(&value[..value.len().min(128)]);
                    return Err(CommandError::Other(format!("No such user '{shown}'")));
                }
            } else if option.eq_ignore_ascii_case(b"SKIPME") {
                filter.spare_me = match value {
                    yes if yes.eq_ignore_ascii_case(b"yes") => true,
                    no if no.eq_ignore_ascii_case(b"no") => false,
                    _ => return Err(CommandError::Syntax),
                };
            } else {
                return Err(CommandError::Syntax);
            }
            at += 2;
        }
        Ok(filter)
    }

    fn matches(&self, client: &ClientInfo) -> bool {
        let is_at = |wanted: Option<&[u8]>, address: SocketAddr| wanted.is_none_or(|wanted| address.to_string().as_bytes() == wanted);
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind == ClientType::Normal)
            && is_at(self.address, client.peer)
            && is_at(self.local_address, client.local)
    }
}

/// `CLIENT KILL ip:port`, or `CLIENT KILL filter value [filter value ...]`
pub(crate) fn kill(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let filter = Filter::parse(call.request)?;
    let mut killed = 0;
    for client in call.node.clients() {
        if !filter.matches(&client) {
            continue;
        }
        if client.id != call.session.id {
            killed += i64::from(call.node.close_client(client.id));
        } else if !filter.spare_me {
            call.session.close_after_reply = true;
            killed += 1;
        }
    }
    match (call.request.len(), killed) {
        (3, 0) => return Err(CommandError::Refused("No such client")),
        (3, _) => call.reply().ok(),
        _ => call.reply().int(killed),
    }
    Ok(())
}

/// `CLIENT HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "CLIENT",
        &[
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
            "    * ADDR <ip:port>",
            "      Kill connections made from the specified address",
            "    * LADDR <ip:port>",
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
            "    * ID <id> [<id> ...]",
            "      Return clients of specified IDs only.",
            "NO-EVICT (ON|OFF)",
            "    Protect current client connection from eviction.",
            "NO-TOUCH (ON|OFF)",
            "    Will not touch LRU/LFU stats when this mode is on.",
            "SETINFO <option> <value>",
            "    Set client meta attr. Options are:",
            "    * LIB-NAME: the client lib name.",
            "    * LIB-VER: the client lib version.",
            "SETNAME <name>",
            "    Assign the name <name> to the current connection.",
        ],
    )
}

impl ClientInfo {
    /// Its line in CLIENT LIST, without the line end: the fields of Redis 7.2 that mean something here.
    pub fn line(&self, now_us: u64) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds_since = |us: u64| now_us.saturating_sub(us) / 1_000_000;
        let mut flags = String::new();
        if self.no_evict {
            flags.push('e');
        }
        if self.no_touch {
            flags.push('T');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let mut line = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} name={} age={} idle={} flags={flags} db={} sub=0 psub=0 ssub=0 multi=-1 events=r cmd={} \
             user=default redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            text(&self.name),
            seconds_since(self.created_us),
            seconds_since(self.last_active_us),
            self.db,
            self.last_command.unwrap_or("NULL"),
            match self.proto {
                Proto::Resp2 => 2,
                Proto::Resp3 => 3,
            },
            text(&self.lib_name),
            text(&self.lib_ver),
        );
        line
    }
}
