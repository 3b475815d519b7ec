//! The connection's commands over a socket: what clients send before they work.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tollgate_suite::{Node, ScratchDir, Value, encode_command};

#[test]
fn handshakes_of_clients() {
    let node = Node::start(&["--workers", "2"]);
    // redis-py 8, ioredis 6, node-redis 6, go-redis 9 and Jedis 8, in the order in which they ask.
    let mut client = node.client();
    let hello = client.line("HELLO 3 SETNAME app");
    assert_eq!(hello.field("server").text(), "redis");
    assert_eq!(hello.field("version").text(), "7.2.4");
    assert_eq!(hello.field("proto").int(), 3);
    assert_eq!(hello.field("mode").text(), "standalone");
    assert_eq!(hello.field("role").text(), "master");
    assert!(hello.field("modules").items().is_empty());
    let id = hello.field("id").int();
    assert_eq!(client.line("CLIENT ID").int(), id);
    let refused = client.line("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip");
    assert_eq!(
        refused.error(),
        "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."
    );
    assert_eq!(client.line("CLIENT SETINFO LIB-NAME redis-py").text(), "OK");
    assert_eq!(client.line("CLIENT SETINFO LIB-VER 8.1.0").text(), "OK");
    assert_eq!(client.line("SELECT 1").text(), "OK");
    let info = client.line("CLIENT INFO");
    let Value::Verbatim(text) = info else {
        panic!("{info:?}")
    };
    let text = String::from_utf8(text).unwrap();
    for field in [
        &format!("id={id} ")[..],
        "name=app ",
        "db=1 ",
        "resp=3 ",
        "lib-name=redis-py ",
        "lib-ver=8.1.0\n",
        "cmd=client|info ",
    ] {
        assert!(text.contains(field), "{field} in {text}");
    }
    // fred and StackExchange.Redis.
    let mut old = node.client();
    assert_eq!(old.line("PING").text(), "PONG");
    assert!(old.line("CLIENT ID").int() > id);
    assert!(old.line("INFO server").text().contains("redis_version:7.2.4\r\n"));
    assert_eq!(old.line("ECHO tie").text(), "tie");
    assert_eq!(
        old.line("CLUSTER NODES").error(),
        "ERR This instance has cluster support disabled"
    );
    // rueidis and redis-rs, which go on without.
    assert_eq!(
        old.line("CLIENT TRACKING ON OPTIN").error(),
        "ERR client-side caching is not supported: this server sends no invalidation messages"
    );
}

#[test]
fn the_protocol_changes_within_a_pipeline() {
    let node = Node::start(&[]);
    let mut client = node.client();
    let lines = [
        "RANDOMKEY",
        "HELLO 3",
        "RANDOMKEY",
        "SELECT 3",
        "HELLO 2",
        "RANDOMKEY",
        "RESET",
        "CLIENT GETNAME",
    ];
    let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    let replies = client.pipeline(&commands);
    assert_eq!(replies[0], Value::NullBulk);
    assert!(matches!(replies[1], Value::Map(_)));
    assert_eq!(replies[2], Value::Null);
    assert!(matches!(replies[4], Value::Array(_)));
    assert_eq!(replies[5], Value::NullBulk);
    assert_eq!(replies[6], Value::Simple("RESET".to_owned()));
    assert_eq!(replies[7], Value::NullBulk);
}

#[test]
fn databases_are_selected_per_connection() {
    let node = Node::start(&["--workers", "2"]);
    let (mut a, mut b) = (node.client(), node.client());
    assert_eq!(a.line("SELECT 5").text(), "OK");
    a.line("RL.CHECK k LIMIT 10 PER 1m");
    assert_eq!(a.line("EXISTS k").int(), 1);
    assert_eq!(b.line("EXISTS k").int(), 0);
    assert_eq!(a.line("RESET").text(), "RESET");
    assert_eq!(a.line("EXISTS k").int(), 0);
}

#[test]
fn a_password_is_asked_for() {
    let dir = ScratchDir::new("password");
    let file = dir.path().join("password");
    std::fs::write(&file, "correct horse\n").unwrap();
    let node = Node::start(&["--password-file", file.to_str().unwrap()]);
    let mut client = node.client();
    for line in [
        "PING",
        "INFO",
        "RL.CHECK k LIMIT 1 PER 1s",
        "DBSIZE",
        "KEYS *",
        "DEL a b",
    ] {
        assert_eq!(client.line(line).error(), "NOAUTH Authentication required.", "{line}");
    }
    assert!(
        client
            .line("HELLO 3")
            .error()
            .starts_with("NOAUTH HELLO must be called with the client already authenticated")
    );
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(client.line("AUTH horse").error(), wrong);
    assert_eq!(client.command(&["AUTH", "somebody", "correct horse"]).error(), wrong);
    assert_eq!(
        client.command(&["HELLO", "3", "AUTH", "default", "wrong"]).error(),
        wrong
    );
    assert_eq!(client.line("PING").error(), "NOAUTH Authentication required.");
    assert_eq!(client.command(&["AUTH", "correct horse"]).text(), "OK");
    assert_eq!(client.line("PING").text(), "PONG");
    let mut other = node.client();
    let hello = other.command(&["HELLO", "3", "AUTH", "default", "correct horse", "SETNAME", "x"]);
    assert_eq!(hello.field("proto").int(), 3);
    assert_eq!(
        other.line("CONFIG GET *").field("auth.password_file").text(),
        file.to_str().unwrap()
    );
    // QUIT works without it.
    let mut third = node.client();
    assert_eq!(third.line("QUIT").text(), "OK");
    assert!(third.receive_to_end().is_empty());
}

#[test]
fn quit_answers_what_came_before_and_nothing_after() {
    let node = Node::start(&[]);
    let mut client = node.client();
    client.send_raw(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.receive_to_end(), b"+PONG\r\n+OK\r\n");
}

#[test]
fn a_client_that_does_not_read_its_replies_can_be_killed() {
    let node = Node::start(&["--workers", "2"]);
    let mut other = node.client();
    assert_eq!(other.line("PING").text(), "PONG");
    let mut stuck = TcpStream::connect(node.listen()).expect("a connection");
    let address = stuck.local_addr().expect("it is bound");
    // Once nothing more is taken from it, all buffers between are full and the node waits for it to read.
    stuck
        .set_write_timeout(Some(Duration::from_millis(500)))
        .expect("the wait is not zero");
    let request = encode_command(&["ECHO".to_owned(), "x".repeat(1 << 20)]);
    let sent_up = (0..200).all(|_| stuck.write_all(&request).is_ok());
    assert!(!sent_up, "200 MB were taken from a client that does not read");
    assert_eq!(other.line("CLIENT LIST").text().lines().count(), 2);
    assert_eq!(other.line(&format!("CLIENT KILL ADDR {address}")).int(), 1);
    let started = Instant::now();
    while other.line("CLIENT LIST").text().lines().count() > 1 {
        assert!(started.elapsed() < Duration::from_secs(10), "it is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    // What is in the buffers may still come, and then the end or a reset.
    stuck
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("the wait is not zero");
    let mut rest = Vec::new();
    if let Err(error) = stuck.read_to_end(&mut rest) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn clients_are_listed_and_killed_across_workers() {
    let node = Node::start(&["--workers", "2"]);
    let mut clients: Vec<_> = (0..4).map(|_| node.client()).collect();
    let ids: Vec<i64> = clients
        .iter_mut()
        .enumerate()
        .map(|(number, client)| {
            assert_eq!(client.line(&format!("CLIENT SETNAME c{number}")).text(), "OK");
            client.line("CLIENT ID").int()
        })
        .collect();
    let list = clients[0].line("CLIENT LIST");
    for (number, id) in ids.iter().enumerate() {
        let line = list
            .text()
            .lines()
            .find(|line| line.starts_with(&format!("id={id} ")))
            .expect("it is listed");
        assert!(line.contains(&format!(" name=c{number} ")), "{line}");
    }
    // Each worker has some of the connections, so this reaches over to the other.
    for &id in &ids[1..] {
        assert_eq!(clients[0].line(&format!("CLIENT KILL ID {id}")).int(), 1);
    }
    for client in &mut clients[1..] {
        assert!(client.receive_to_end().is_empty());
    }
    assert_eq!(clients[0].line(&format!("CLIENT KILL ID {}", ids[1])).int(), 0);
    assert_eq!(clients[0].line("CLIENT LIST").text().lines().count(), 1);
    // A connection that kills itself gets its answer first.
    assert_eq!(
        clients[0].line(&format!("CLIENT KILL ID {} SKIPME no", ids[0])).int(),
        1
    );
    assert!(clients[0].receive_to_end().is_empty());
    assert!(node.client().is_silent_for(Duration::from_millis(10)));
}
