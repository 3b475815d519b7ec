//! The library of these tests, tried against a stock redis-server.

use std::time::Duration;

use tollgate_suite::{Client, RedisServer, Value, skip_without};

#[test]
fn talks_to_redis_server_in_both_protocols() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let server = RedisServer::start(&[]);
    let mut client = server.client();
    assert_eq!(client.line("PING"), Value::Simple("PONG".into()));
    assert_eq!(client.command(&["SET", "a key", "\r\n"]), Value::Simple("OK".into()));
    assert_eq!(client.command(&["GET", "a key"]), Value::Bulk(b"\r\n".to_vec()));
    assert_eq!(client.line("GET none"), Value::NullBulk);
    assert!(client.line("NO-SUCH").error().starts_with("ERR unknown command"));
    assert_eq!(client.hello3().field("proto").int(), 3);
    assert_eq!(client.line("GET none"), Value::Null);
}

#[test]
fn pipelines_more_than_the_socket_buffers_hold() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let server = RedisServer::start(&[]);
    let big = "x".repeat(64 * 1024);
    let commands: Vec<_> = (0..300).map(|n| vec!["ECHO".to_owned(), format!("{n}{big}")]).collect();
    let replies = server.client().pipeline(&commands);
    for (command, reply) in commands.iter().zip(&replies) {
        assert_eq!(reply.text(), command[1]);
    }
}

#[test]
fn sees_silence_and_closing() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let server = RedisServer::start(&[]);
    let mut client = server.client();
    assert!(client.is_silent_for(Duration::from_millis(50)));
    client.send(&["PING"]);
    assert!(!client.is_silent_for(Duration::from_secs(5)));
    assert_eq!(client.receive_raw(7), b"+PONG\r\n");
    client.send(&["QUIT"]);
    assert_eq!(client.receive_to_end(), b"+OK\r\n");
}

#[test]
fn leaves_no_server_behind_when_a_test_panics() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let failed = std::thread::spawn(move || {
        let server = RedisServer::start(&[]);
        sender.send(server.address()).unwrap();
        Client::connect(server.address()).line("PING").int();
    })
    .join();
    assert!(failed.is_err(), "PONG is no integer");
    assert!(
        std::net::TcpStream::connect(receiver.recv().unwrap()).is_err(),
        "redis-server still answers"
    );
}
