//! Commands about the connection.

use super::{Run, Spec};
use crate::{client, client_control, client_list, connection};

const BASE: Spec = Spec {
    group: "connection",
    ..Spec::BASE
};

const HANDSHAKE: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];
const OWN: &[&str] = &["noscript", "loading", "stale"];
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];

const CLIENT: &[Spec] = &[
    Spec {
        name: "client|caching",
        arity: 3,
        flags: OWN,
        since: "6.0.0",
        syntax: "YES|NO",
        summary: "Fails: the connection tracks no keys.",
        run: Run::Connection(client_control::caching),
        ..BASE
    },
    Spec {
        name: "client|getname",
        arity: 2,
        flags: OWN,
        since: "2.6.9",
        summary: "Returns the name of the connection.",
        run: Run::Connection(client::get_name),
        ..BASE
    },
    Spec {
        name: "client|getredir",
        arity: 2,
        flags: OWN,
        since: "6.0.0",
        summary: "Returns -1: the connection tracks no keys.",
        run: Run::Connection(client_control::get_redir),
        ..BASE
    },
    Spec {
        name: "client|help",
        arity: 2,
        flags: &["loading", "stale"],
        since: "5.0.0",
        summary: "Lists the subcommands.",
        run: Run::Connection(client::help),
        ..BASE
    },
    Spec {
        name: "client|id",
        arity: 2,
        flags: OWN,
        since: "5.0.0",
        summary: "Returns the id of the connection.",
        run: Run::Connection(client::id),
        ..BASE
    },
    Spec {
        name: "client|info",
        arity: 2,
        flags: OWN,
        tips: &["nondeterministic_output"],
        since: "6.2.0",
        summary: "Describes the connection.",
        run: Run::Connection(client::info),
        ..BASE
    },
    Spec {
        name: "client|kill",
        arity: -3,
        flags: ADMIN,
        since: "2.4.0",
        syntax: "<ip:port | filter value [...]>",
        complexity: "O(N) where N is the number of client connections",
        summary: "Closes connections: by address, or all that match ID, TYPE, USER, ADDR, LADDR and SKIPME.",
        run: Run::Connection(client_list::kill),
        ..BASE
    },
    Spec {
        name: "client|list",
        arity: -2,
        flags: ADMIN,
        tips: &["nondeterministic_output"],
        since: "2.4.0",
        syntax: "[<TYPE NORMAL|MASTER|REPLICA|PUBSUB | ID client-id [...]>]",
        complexity: "O(N) where N is the number of client connections",
        summary: "Describes the connections of the node.",
        run: Run::Connection(client_list::list),
        ..BASE
    },
    Spec {
        name: "client|no-evict",
        arity: 3,
        flags: ADMIN,
        since: "7.0.0",
        syntax: "ON|OFF",
        summary: "Protects the connection from being closed for want of memory, which never happens here.",
        run: Run::Connection(client::no_evict),
        ..BASE
    },
    Spec {
        name: "client|no-touch",
        arity: 3,
        flags: OWN,
        since: "7.2.0",
        syntax: "ON|OFF",
        summary: "Keeps the connection's commands from marking keys as used, which none does here.",
        run: Run::Connection(client::no_touch),
        ..BASE
    },
    Spec {
        name: "client|pause",
        arity: -3,
        flags: ADMIN,
        since: "3.0.0",
        syntax: "timeout [WRITE|ALL]",
        summary: "Lets commands wait for some milliseconds: all, or those that write.",
        run: Run::Connection(client_control::pause),
        ..BASE
    },
    Spec {
        name: "client|reply",
        arity: 3,
        flags: OWN,
        since: "3.2.0",
        syntax: "ON|OFF|SKIP",
        summary: "Says which commands of the connection are answered: all, none, or not the next.",
        run: Run::Connection(client_control::reply),
        ..BASE
    },
    Spec {
        name: "client|setinfo",
        arity: 4,
        flags: OWN,
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "7.2.0",
        syntax: "LIB-NAME|LIB-VER value",
        summary: "Sets the name or version of the client library.",
        run: Run::Connection(client::set_info),
        ..BASE
    },
    Spec {
        name: "client|setname",
        arity: 3,
        flags: OWN,
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.6.9",
        syntax: "connection-name",
        summary: "Sets the name of the connection.",
        run: Run::Connection(client::set_name),
        ..BASE
    },
    Spec {
        name: "client|tracking",
        arity: -3,
        flags: OWN,
        since: "6.0.0",
        syntax: "ON|OFF [REDIRECT client-id] [PREFIX prefix [...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        summary: "Turns client-side caching off; ON is refused.",
        run: Run::Connection(client_control::tracking),
        ..BASE
    },
    Spec {
        name: "client|trackinginfo",
        arity: 2,
        flags: OWN,
        since: "6.2.0",
        summary: "Returns that the connection tracks no keys.",
        run: Run::Connection(client_control::tracking_info),
        ..BASE
    },
    Spec {
        name: "client|unblock",
        arity: -3,
        flags: ADMIN,
        since: "5.0.0",
        syntax: "client-id [TIMEOUT|ERROR]",
        complexity: "O(log N) where N is the number of client connections",
        summary: "Ends the wait of a connection.",
        run: Run::Connection(client_control::unblock),
        ..BASE
    },
    Spec {
        name: "client|unpause",
        arity: 2,
        flags: ADMIN,
        since: "6.2.0",
        complexity: "O(N) where N is the number of connections that wait",
        summary: "Lets commands go on that CLIENT PAUSE stopped.",
        run: Run::Connection(client_control::unpause),
        ..BASE
    },
];

pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "auth",
        arity: -2,
        flags: HANDSHAKE,
        since: "1.0.0",
        syntax: "[username] password",
        summary: "Authenticates the connection.",
        run: Run::Connection(connection::auth),
        ..BASE
    },
    Spec {
        name: "client",
        arity: -2,
        since: "2.4.0",
        complexity: "Depends on subcommand.",
        summary: "Container of the commands about client connections.",
        subcommands: CLIENT,
        ..BASE
    },
    Spec {
        name: "echo",
        arity: 2,
        flags: &["loading", "stale", "fast"],
        since: "1.0.0",
        syntax: "message",
        summary: "Returns the message.",
        run: Run::Connection(connection::echo),
        ..BASE
    },
    Spec {
        name: "hello",
        arity: -1,
        flags: HANDSHAKE,
        since: "6.0.0",
        syntax: "[protover [AUTH username password] [SETNAME clientname]]",
        summary: "Chooses the version of the protocol and describes the server.",
        run: Run::Connection(connection::hello),
        ..BASE
    },
    Spec {
        name: "ping",
        arity: -1,
        flags: &["fast"],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "1.0.0",
        syntax: "[message]",
        summary: "Returns PONG, or the message.",
        run: Run::Connection(connection::ping),
        ..BASE
    },
    Spec {
        name: "quit",
        arity: -1,
        flags: HANDSHAKE,
        since: "1.0.0",
        summary: "Closes the connection after what came before is answered.",
        run: Run::Connection(connection::quit),
        ..BASE
    },
    Spec {
        name: "reset",
        flags: HANDSHAKE,
        since: "6.2.0",
        summary: "Puts the connection back into the state it started in.",
        run: Run::Connection(connection::reset),
        ..BASE
    },
    Spec {
        name: "select",
        arity: 2,
        flags: &["loading", "stale", "fast"],
        since: "1.0.0",
        syntax: "index",
        summary: "Chooses the database, 0 to 15.",
        run: Run::Connection(connection::select),
        ..BASE
    },
];
