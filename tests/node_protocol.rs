//! The protocol over a socket: frames in any pieces, bad frames, pipelines, two protocol versions on one connection.

use std::io::{Read, Write};
use tollgate_suite::{Node, Value, encode_command};

/// What a pipeline of different kinds of commands answers.
fn mixed_pipeline() -> (Vec<u8>, Vec<Value>) {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for remaining in (0..3).rev() {
        bytes.extend(encode_command(&["CL.THROTTLE", "split", "2", "1", "3600"]));
        expected.push(remaining);
    }
    bytes.extend_from_slice(b"PING\r\n");
    bytes.extend_from_slice(b"*0\r\n\r\nECHO \"a\\x20b\"\r\n");
    bytes.extend(encode_command(&["DEL", "split"]));
    let mut replies: Vec<Value> = expected
        .into_iter()
        .map(|remaining| Value::Array([0, 3, remaining, -1].map(Value::Int).to_vec()))
        .collect();
    replies.push(Value::Simple("PONG".to_owned()));
    replies.push(Value::Bulk(b"a b".to_vec()));
    replies.push(Value::Int(1));
    (bytes, replies)
}

/// The last field of CL.THROTTLE depends on the time.
fn without_reset(value: Value) -> Value {
    match value {
        Value::Array(items) if items.len() == 5 => Value::Array(items[..4].to_vec()),
        other => other,
    }
}

#[test]
fn requests_may_be_split_at_any_byte() {
    let node = Node::start(&["--workers", "2"]);
    let (bytes, expected) = mixed_pipeline();
    for cut in 1..bytes.len() {
        let mut client = node.client();
        client.send_raw(&bytes[..cut]);
        // Another connection's answer shows that the node has had the time to read the first part.
        assert_eq!(node.client().line("PING").text(), "PONG");
        client.send_raw(&bytes[cut..]);
        let replies: Vec<_> = expected.iter().map(|_| without_reset(client.receive())).collect();
        assert_eq!(replies, expected, "cut at {cut}");
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let node = Node::start(&["--workers", "1"]);
    let (bytes, expected) = mixed_pipeline();
    let mut client = node.client();
    for byte in &bytes {
        client.send_raw(&[*byte]);
    }
    let replies: Vec<_> = expected.iter().map(|_| without_reset(client.receive())).collect();
    assert_eq!(replies, expected);
}

#[test]
fn bad_frames_get_redis_errors_and_close_only_their_connection() {
    let node = Node::start(&["--workers", "2"]);
    let mut bystander = node.client();
    let too_long = vec![b'x'; 70_000];
    let nested = b"*1\r\n".repeat(20_000);
    let cases: [(&[u8], &str); 8] = [
        (b"*x\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*99999999999\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
        (b"*1\r\n$-5\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$99999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"ECHO \"open\r\n", "ERR Protocol error: unbalanced quotes in request"),
        (&nested, "ERR Protocol error: expected '$', got '*'"),
        (&too_long, "ERR Protocol error: too big inline request"),
    ];
    for (frame, error) in cases {
        let mut client = node.client();
        // What came before a bad frame is answered.
        client.send_raw(b"PING\r\n");
        assert_eq!(client.receive().text(), "PONG");
        client.send_raw(frame);
        assert_eq!(client.receive().error(), error);
        assert!(client.receive_to_end().is_empty(), "{error}: closed after the error");
        assert_eq!(bystander.line("PING").text(), "PONG");
    }
}

#[test]
fn pipelines_of_any_depth_answer_in_order() {
    for workers in ["1", "3"] {
        let node = Node::start(&["--workers", workers]);
        let mut client = node.client();
        let commands: Vec<Vec<String>> = (0..20_000)
            .map(|i| match i % 5 {
                0 => vec!["ECHO".to_owned(), i.to_string()],
                1 => vec!["NOSUCH".to_owned()],
                _ => ["RL.CHECK", &format!("k{}", i % 97), "LIMIT", "1000000", "PER", "1h"]
                    .map(str::to_owned)
                    .to_vec(),
            })
            .collect();
        let replies = client.pipeline(&commands);
        let mut taken = std::collections::HashMap::new();
        for (i, reply) in replies.iter().enumerate() {
            match i % 5 {
                0 => assert_eq!(reply.text(), i.to_string()),
                1 => assert!(reply.is_error()),
                _ => {
                    let taken = taken.entry(i % 97).or_insert(0);
                    *taken += 1;
                    let items = reply.items();
                    assert_eq!(items[0].int(), 1);
                    // Refill at 278 a second gives back only whole tokens, and this takes far less than a second a key.
                    assert!((1_000_000 - items[2].int()) <= *taken, "{i}");
                }
            }
        }
    }
}

#[test]
fn each_reply_has_the_protocol_of_its_time() {
    for workers in ["1", "4"] {
        let node = Node::start(&["--workers", workers]);
        let mut client = node.client();
        let mut bytes = Vec::new();
        for (i, hello) in ["3", "2", "3"].iter().enumerate() {
            for key in 0..20 {
                bytes.extend(encode_command(&[
                    "RL.CHECK",
                    &format!("{i}:{key}"),
                    "LIMIT",
                    "5",
                    "PER",
                    "1h",
                ]));
            }
            bytes.extend(encode_command(&["HELLO", hello]));
        }
        client.send_raw(&bytes);
        for round in 0..3 {
            for _ in 0..20 {
                let is_map = matches!(client.receive(), Value::Map(_));
                assert_eq!(is_map, round == 1, "checks before HELLO number {round}");
            }
            let hello = client.receive();
            assert!(!hello.is_error());
        }
    }
}

#[test]
fn databases_are_those_selected_when_the_command_came() {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    let mut commands = Vec::new();
    for db in 0..16 {
        commands.push(vec!["SELECT".to_owned(), db.to_string()]);
        commands.push(
            ["RL.CHECK", "k", "LIMIT", "5", "PER", "1h", "COST"]
                .iter()
                .map(|s| (*s).to_owned())
                .chain(["2".to_owned()])
                .collect(),
        );
    }
    for reply in client.pipeline(&commands).iter().skip(1).step_by(2) {
        assert_eq!(reply.items()[2].int(), 3, "each database has its own bucket");
    }
    assert!(client.line("SELECT 16").is_error());
}

#[test]
fn a_slow_reader_costs_only_itself() {
    const REPLIES: usize = 2_000;
    let node = Node::start(&["--workers", "1"]);
    let mut slow = std::net::TcpStream::connect(node.listen()).expect("a connection");
    let mut writer = slow.try_clone().expect("a second handle");
    let payload = vec![b'x'; 30_000];
    let echo = encode_command(&[b"ECHO".to_vec(), payload.clone()]);
    // 60 MB of replies are more than the buffers on the way hold: the node has to stop reading from this client.
    let sender = std::thread::spawn(move || {
        for _ in 0..REPLIES {
            writer.write_all(&echo).expect("the node takes it in the end");
        }
    });
    let mut other = node.client();
    for _ in 0..500 {
        assert_eq!(other.line("PING").text(), "PONG");
    }
    // Once it reads, it gets everything.
    let mut received = vec![0; REPLIES * (payload.len() + "$30000\r\n\r\n".len())];
    slow.read_exact(&mut received).expect("all replies");
    sender.join().expect("the sender");
    assert!(received.starts_with(b"$30000\r\nx") && received.ends_with(b"x\r\n"));
}
