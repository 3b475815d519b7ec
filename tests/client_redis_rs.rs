//! redis-rs against a node, in both protocols, with one worker and with two. The other clients are in tests/clients.

#![allow(clippy::unwrap_used, reason = "clippy sees no tests in what they share")]

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{
    AsyncCommands, Client, Cmd, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, RedisResult,
    ServerErrorKind, Value, cmd,
};
use tollgate_suite::{Node, ScratchDir};

const FIELDS: [&str; 6] = [
    "allowed",
    "limit",
    "remaining",
    "retry_after_ms",
    "reset_at_ms",
    "source",
];

/// A way to meet a node: its number of workers and the protocol spoken.
#[derive(Debug, Clone, Copy)]
struct Setting {
    workers: &'static str,
    protocol: ProtocolVersion,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        workers: "1",
        protocol: ProtocolVersion::RESP2,
    },
    Setting {
        workers: "1",
        protocol: ProtocolVersion::RESP3,
    },
    Setting {
        workers: "2",
        protocol: ProtocolVersion::RESP2,
    },
    Setting {
        workers: "2",
        protocol: ProtocolVersion::RESP3,
    },
];

impl Setting {
    fn start(self, args: &[&str]) -> Node {
        println!("{self:?}");
        Node::start(&[&["--workers", self.workers], args].concat())
    }

    fn info(self, node: &Node) -> ConnectionInfo {
        let info = (node.listen().ip().to_string(), node.listen().port())
            .into_connection_info()
            .unwrap();
        let settings = info.redis_settings().clone().set_protocol(self.protocol);
        info.set_redis_settings(settings)
    }

    async fn connect(self, node: &Node) -> MultiplexedConnection {
        connect(self.info(node)).await.unwrap()
    }
}

async fn connect(info: ConnectionInfo) -> RedisResult<MultiplexedConnection> {
    Client::open(info)?.get_multiplexed_async_connection().await
}

/// Runs `test` on a runtime of its own.
fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

/// The fields of a reply to RL.CHECK.
#[derive(Debug, PartialEq)]
struct Fields {
    allowed: i64,
    limit: i64,
    remaining: i64,
    retry_after_ms: i64,
    reset_at_ms: i64,
    source: String,
}

/// Takes them from an array in RESP2, from a map in RESP3.
fn fields(reply: Value, protocol: ProtocolVersion) -> Fields {
    let values = match (protocol, reply) {
        (ProtocolVersion::RESP2, Value::Array(values)) => values,
        (ProtocolVersion::RESP3, Value::Map(pairs)) => {
            let names: Vec<String> = pairs
                .iter()
                .map(|(name, _)| redis::from_redis_value_ref(name).unwrap())
                .collect();
            assert_eq!(names, FIELDS);
            pairs.into_iter().map(|(_, value)| value).collect()
        }
        (_, reply) => panic!("{protocol:?} gave {reply:?}"),
    };
    let [
        Value::Int(allowed),
        Value::Int(limit),
        Value::Int(remaining),
        Value::Int(retry_after_ms),
        Value::Int(reset_at_ms),
        Value::BulkString(source),
    ] = &values[..]
    else {
        panic!("not the right types: {values:?}");
    };
    Fields {
        allowed: *allowed,
        limit: *limit,
        remaining: *remaining,
        retry_after_ms: *retry_after_ms,
        reset_at_ms: *reset_at_ms,
        source: String::from_utf8(source.clone()).unwrap(),
    }
}

fn check(key: &str, limit: &str, per: &str) -> Cmd {
    let mut command = cmd("RL.CHECK");
    command.arg(key).arg("LIMIT").arg(limit).arg("PER").arg(per);
    command
}

#[test]
fn connects_with_a_name_and_a_database() {
    for setting in SETTINGS {
        let node = setting.start(&[]);
        block_on(async {
            let info = setting.info(&node);
            let settings = info.redis_settings().clone().set_db(3);
            let mut third = connect(info.set_redis_settings(settings)).await.unwrap();
            let mut first = setting.connect(&node).await;
            // redis-rs has no option for a name; programs send the command.
            cmd("CLIENT")
                .arg("SETNAME")
                .arg("checkout")
                .exec_async(&mut third)
                .await
                .unwrap();
            let name: String = cmd("CLIENT").arg("GETNAME").query_async(&mut third).await.unwrap();
            assert_eq!(name, "checkout");
            check("key", "5", "1m").exec_async(&mut third).await.unwrap();
            assert!(third.exists::<_, bool>("key").await.unwrap());
            assert!(!first.exists::<_, bool>("key").await.unwrap());
        });
    }
}

#[test]
fn rl_check_allows_five_of_seven() {
    for setting in SETTINGS {
        let node = setting.start(&[]);
        block_on(async {
            let mut client = setting.connect(&node).await;
            for n in 0..7 {
                let reply = check("key", "5", "1m").query_async(&mut client).await.unwrap();
                let reply = fields(reply, setting.protocol);
                let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
                assert_eq!((reply.allowed, reply.limit), (i64::from(n < 5), 5));
                assert_eq!((reply.remaining, reply.source.as_str()), ((4 - n).max(0), "owner"));
                let retry_after_ms_wanted = if n < 5 { 0..=0 } else { 1..=12_000 };
                assert!(retry_after_ms_wanted.contains(&reply.retry_after_ms), "{reply:?}");
                assert!(
                    (now_ms + 1..now_ms + 61_000).contains(&reply.reset_at_ms),
                    "{reply:?} at {now_ms}"
                );
            }
        });
    }
}

#[test]
fn cl_throttle_allows_five_of_seven() {
    for setting in SETTINGS {
        let node = setting.start(&[]);
        block_on(async {
            let mut client = setting.connect(&node).await;
            for n in 0..7 {
                let reply: [i64; 5] = cmd("CL.THROTTLE")
                    .arg("key")
                    .arg(&[4, 5, 60])
                    .query_async(&mut client)
                    .await
                    .unwrap();
                assert_eq!(reply[..3], [i64::from(n >= 5), 5, (4 - n).max(0)]);
                let retry_after_wanted = if n < 5 { -1..=-1 } else { 11..=12 };
                assert!(retry_after_wanted.contains(&reply[3]), "{reply:?}");
                assert!((1..=60).contains(&reply[4]), "{reply:?}");
            }
        });
    }
}

#[test]
fn a_bucket_is_a_key() {
    for setting in SETTINGS {
        let node = setting.start(&[]);
        block_on(async {
            let mut client = setting.connect(&node).await;
            check("key", "5", "1m").exec_async(&mut client).await.unwrap();
            assert!(client.exists::<_, bool>("key").await.unwrap());
            assert_eq!(type_of("key", &mut client).await, "bucket");
            assert!(client.ttl::<_, i64>("key").await.unwrap() > 0);
            let mut scan = client.scan_match::<_, String>("ke*").await.unwrap();
            assert_eq!(scan.next_item().await.map(Result::unwrap), Some("key".to_owned()));
            assert!(scan.next_item().await.is_none());
            drop(scan);
            assert_eq!(client.del::<_, i64>("key").await, Ok(1));
            assert!(!client.exists::<_, bool>("key").await.unwrap());
            assert_eq!(type_of("key", &mut client).await, "none");
            assert_eq!(client.ttl::<_, i64>("key").await, Ok(-2));
        });
    }
}

async fn type_of(key: &str, client: &mut MultiplexedConnection) -> String {
    cmd("TYPE").arg(key).query_async(client).await.unwrap()
}

#[test]
fn a_pipeline_is_answered_in_order() {
    for setting in SETTINGS {
        let node = setting.start(&[]);
        block_on(async {
            let mut client = setting.connect(&node).await;
            let mut pipeline = redis::pipe();
            for _ in 0..1000 {
                pipeline.add_command(check("key", "1000", "30d"));
            }
            let replies: Vec<Value> = pipeline.query_async(&mut client).await.unwrap();
            let remaining: Vec<i64> = replies
                .into_iter()
                .map(|reply| fields(reply, setting.protocol).remaining)
                .collect();
            assert_eq!(remaining, (0..1000).rev().collect::<Vec<_>>());
        });
    }
}

#[test]
fn an_error_is_a_server_error() {
    for setting in SETTINGS {
        let node = setting.start(&[]);
        block_on(async {
            let mut client = setting.connect(&node).await;
            let error = check("key", "0", "1m").exec_async(&mut client).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::ResponseError));
            let error = cmd("RL.NO-SUCH-COMMAND")
                .arg("key")
                .exec_async(&mut client)
                .await
                .unwrap_err();
            assert!(error.to_string().contains("unknown command"), "{error}");
            let mut pipeline = redis::pipe();
            for limit in ["5", "five", "5"] {
                pipeline.add_command(check("key", limit, "1m"));
            }
            let replies: Vec<RedisResult<Value>> = pipeline.ignore_errors().query_async(&mut client).await.unwrap();
            assert_eq!(
                replies.iter().map(Result::is_ok).collect::<Vec<_>>(),
                [true, false, true]
            );
        });
    }
}

#[test]
fn recovers_when_the_node_is_killed_and_started_again() {
    for setting in SETTINGS {
        let node = setting.start(&[]);
        block_on(async {
            let client = Client::open(setting.info(&node)).unwrap();
            let config = ConnectionManagerConfig::new()
                .set_min_delay(Duration::from_millis(10))
                .set_max_delay(Duration::from_millis(100));
            let mut manager = ConnectionManager::new_with_config(client, config).await.unwrap();
            check("key", "5", "1m").exec_async(&mut manager).await.unwrap();
            let _node = node.restart();
            let deadline = Instant::now() + Duration::from_secs(10);
            while let Err(error) = check("key", "5", "1m").exec_async(&mut manager).await {
                assert!(Instant::now() < deadline, "no recovery: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(manager.exists::<_, bool>("key").await.unwrap());
        });
    }
}

#[test]
fn a_password_is_asked_for() {
    let dir = ScratchDir::new("password");
    let file = dir.write("password", "correct horse\n");
    for setting in SETTINGS {
        let node = setting.start(&["--password-file", file.to_str().unwrap()]);
        block_on(async {
            let with_password = |password: &str| {
                let info = setting.info(&node);
                let settings = info.redis_settings().clone().set_password(password);
                connect(info.set_redis_settings(settings))
            };
            let mut client = with_password("correct horse").await.unwrap();
            check("key", "5", "1m").exec_async(&mut client).await.unwrap();
            let refused = with_password("wrong").await.expect_err("a wrong password is refused");
            // AUTH's refusal has a kind of its own in redis-rs, HELLO's has the server's code.
            match setting.protocol {
                ProtocolVersion::RESP2 => assert_eq!(refused.kind(), ErrorKind::AuthenticationFailed),
                _ => assert_eq!(refused.code(), Some("WRONGPASS")),
            }
            let refused = match connect(setting.info(&node)).await {
                Ok(mut client) => check("key", "5", "1m").exec_async(&mut client).await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(refused.code(), Some("NOAUTH"));
        });
    }
}
