//! CLIENT LIST and CLIENT KILL: the connections of a node.

use crate::CommandError;
use crate::connection::USER;
use crate::node_view::{ClientInfo, ConnectionCall};
use std::fmt::Write as _;
use std::net::SocketAddr;
use tollgate_protocol::{Proto, Request, parse_integer};

/// `CLIENT LIST [TYPE type] [ID id [id ...]]`; Redis takes one of the two.
pub(crate) fn list(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    let mut ids: Option<Vec<u64>> = None;
    let mut kind = None;
    match request.get(2) {
        None => {}
        Some(option) if option.eq_ignore_ascii_case(b"TYPE") && request.len() == 4 => {
            kind = Some(ClientType::parse(request.arg(3))?)
        }
        Some(option) if option.eq_ignore_ascii_case(b"ID") && request.len() > 3 => {
            let parse = |text| parse_integer(text).and_then(|id| u64::try_from(id).ok());
            let given = request.iter().skip(3).map(parse).collect::<Option<_>>();
            ids = Some(given.ok_or(CommandError::Refused("Invalid client ID"))?);
        }
        Some(_) => return Err(CommandError::Syntax),
    }
    let mut text = String::new();
    let own = call.session.info();
    for client in call.node.clients() {
        if ids.as_ref().is_some_and(|ids| !ids.contains(&client.id)) {
            continue;
        }
        // What the node knows of this connection may be older than what it knows of itself.
        let shown = if client.id == own.id { &own } else { &client };
        if kind.is_none_or(|kind| kind == ClientType::of(shown)) {
            text.push_str(&shown.line(call.env.now_us));
            text.push('\n');
        }
    }
    call.reply().verbatim(text.as_bytes());
    Ok(())
}

/// The kinds of clients that Redis tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientType {
    Normal,
    /// It listens.
    PubSub,
    /// A master or a replica; here is none.
    Replication,
}

impl ClientType {
    fn of(client: &ClientInfo) -> Self {
        match client.listens_to {
            Some(_) => Self::PubSub,
            None => Self::Normal,
        }
    }

    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        if word.eq_ignore_ascii_case(b"normal") {
            return Ok(Self::Normal);
        }
        if word.eq_ignore_ascii_case(b"pubsub") {
            return Ok(Self::PubSub);
        }
        let others = [&b"slave"[..], b"replica", b"master"];
        if others.iter().any(|other| word.eq_ignore_ascii_case(other)) {
            return Ok(Self::Replication);
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
                let id = parse_integer(value)
                    .and_then(|id| u64::try_from(id).ok())
                    .filter(|&id| id > 0);
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
        let is_at = |wanted: Option<&[u8]>, address: SocketAddr| {
            wanted.is_none_or(|wanted| address.to_string().as_bytes() == wanted)
        };
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind == ClientType::of(client))
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

impl ClientInfo {
    /// Its line in CLIENT LIST, without the line end: the fields of Redis 7.2 that mean something here.
    pub fn line(&self, now_us: u64) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds_since = |us: u64| now_us.saturating_sub(us) / 1_000_000;
        let mut flags: String = [
            (self.is_monitor, 'O'),
            (self.listens_to.is_some(), 'P'),
            (self.queued.is_some(), 'x'),
            (self.is_blocked, 'b'),
            (self.no_evict, 'e'),
            (self.no_touch, 'T'),
        ]
        .into_iter()
        .filter_map(|(is_set, flag)| is_set.then_some(flag))
        .collect();
        if flags.is_empty() {
            flags.push('N');
        }
        let [channels, patterns, shard_channels] = self.listens_to.unwrap_or_default();
        // Commands of one transaction, far fewer than 2^63.
        let queued = self.queued.map_or(-1, |queued| queued as i64);
        let mut line = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} name={} age={} idle={} flags={flags} db={} sub={channels} psub={patterns} ssub={shard_channels} \
             multi={queued} events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
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

#[cfg(test)]
mod tests {
    use crate::Session;
    use crate::test_node::{TestNode, run, session};
    use crate::test_request::with_line;

    /// A node with three connections, and the session of the second.
    fn three() -> (TestNode, Session) {
        let mut node = TestNode::default();
        node.clients = (1..=3).map(|id| session(&node, id).info()).collect();
        let own = session(&node, 2);
        (node, own)
    }

    #[test]
    fn list_filters() {
        let (node, mut own) = three();
        let mut ids = |line: &str| {
            let reply = with_line(line, |request| run(&node, &mut own, request));
            let of = |line: &str| {
                line.split_once("id=")
                    .and_then(|(_, rest)| rest.split(' ').next())
                    .map(str::to_owned)
            };
            reply.lines().filter_map(of).collect::<Vec<_>>()
        };
        assert_eq!(ids("CLIENT LIST"), ["1", "2", "3"]);
        assert_eq!(ids("CLIENT LIST TYPE normal"), ["1", "2", "3"]);
        assert_eq!(ids("CLIENT LIST ID 3 9 1"), ["1", "3"]);
        assert!(ids("CLIENT LIST TYPE pubsub").is_empty());
        for (line, error) in [
            ("CLIENT LIST foo", "-ERR syntax error\r\n"),
            ("CLIENT LIST TYPE normal ID 1", "-ERR syntax error\r\n"),
            ("CLIENT LIST TYPE foo", "-ERR Unknown client type 'foo'\r\n"),
            ("CLIENT LIST ID a", "-ERR Invalid client ID\r\n"),
        ] {
            assert_eq!(with_line(line, |request| run(&node, &mut own, request)), error);
        }
    }

    #[test]
    fn kill_closes_what_matches() {
        let kill = |line: &str| {
            let (node, mut own) = three();
            let reply = with_line(line, |request| run(&node, &mut own, request));
            let closed = node.closed.borrow().clone();
            (reply, closed, own.close_after_reply)
        };
        let count = |n: usize| format!(":{n}\r\n");
        assert_eq!(
            kill("CLIENT KILL 127.0.0.1:40001"),
            ("+OK\r\n".to_owned(), vec![1], false)
        );
        assert_eq!(
            kill("CLIENT KILL 127.0.0.1:40002"),
            ("+OK\r\n".to_owned(), vec![], true)
        );
        assert_eq!(kill("CLIENT KILL nowhere").0, "-ERR No such client\r\n");
        assert_eq!(kill("CLIENT KILL ID 3"), (count(1), vec![3], false));
        assert_eq!(kill("CLIENT KILL ID 9"), (count(0), vec![], false));
        assert_eq!(kill("CLIENT KILL ID 2"), (count(0), vec![], false));
        assert_eq!(kill("CLIENT KILL ID 2 SKIPME no"), (count(1), vec![], true));
        assert_eq!(kill("CLIENT KILL TYPE normal"), (count(2), vec![1, 3], false));
        assert_eq!(kill("CLIENT KILL TYPE normal SKIPME no"), (count(3), vec![1, 3], true));
        assert_eq!(kill("CLIENT KILL TYPE pubsub").0, count(0));
        assert_eq!(
            kill("CLIENT KILL USER default ADDR 127.0.0.1:40003"),
            (count(1), vec![3], false)
        );
        assert_eq!(kill("CLIENT KILL LADDR 127.0.0.1:6379").1, [1, 3]);
        for (line, error) in [
            ("CLIENT KILL ID x", "-ERR client-id should be greater than 0\r\n"),
            ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0\r\n"),
            ("CLIENT KILL USER nobody", "-ERR No such user 'nobody'\r\n"),
            ("CLIENT KILL SKIPME foo", "-ERR syntax error\r\n"),
            ("CLIENT KILL foo bar", "-ERR syntax error\r\n"),
            ("CLIENT KILL ID 3 SKIPME", "-ERR syntax error\r\n"),
        ] {
            assert_eq!(kill(line), (error.to_owned(), vec![], false), "{line}");
        }
    }
}
