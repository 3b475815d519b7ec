//! The library of these tests, tried against a stock redis-server.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use tollgate_suite::{Check, Client, Differential, Draw, RedisServer, Trial, Value, skip_without};

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

/// Fields of one hash, and how it is kept: a server that keeps fewer in a listpack differs once there are more than that.
fn fields(draw: &mut Draw) -> Trial {
    match draw.below(10) {
        0 => Trial::new(["OBJECT", "ENCODING", "h"]),
        1 => Trial::new(["HGETALL", "h"]).checked(Check::AsKept(2)),
        2 => Trial::new(["HSCAN", "h", "0", "COUNT", "3"]).checked(Check::Scan(2)),
        _ => Trial::new([
            "HSET".to_owned(),
            "h".to_owned(),
            draw.below(50).to_string(),
            "v".to_owned(),
        ]),
    }
}

#[test]
fn a_difference_is_found_and_made_short() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let commands: &[(&str, &[&str])] = &[
        ("HGETALL", &[]),
        ("HSCAN", &["COUNT"]),
        ("HSET", &[]),
        ("OBJECT", &["ENCODING"]),
    ];
    let few = &["--hash-max-listpack-entries", "20"];
    let [reference, same, other] = [&[][..], &[], few].map(RedisServer::start);
    let run = |reference: &RedisServer, tested: &RedisServer| {
        let mut differential = Differential::new(commands, fields);
        differential.run(&mut reference.client(), &mut tested.client(), 1, 3_000);
        differential.finish();
    };
    run(&reference, &same);
    let failed = std::panic::catch_unwind(AssertUnwindSafe(|| run(&reference, &other)));
    let message = failed.expect_err("they differ");
    let message = message.downcast_ref::<String>().expect("a text");
    // 21 fields and the question.
    assert!(message.contains("the shortest sequence found, of 22:"), "{message}");
    assert!(message.contains("where redis-server answers"), "{message}");
}
