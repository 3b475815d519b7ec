use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Answers by the key; remembers what it was asked.
#[derive(Default)]
struct Fake {
    asked: Mutex<Vec<CheckRequest>>,
    leaving: AtomicBool,
}

impl CheckBackend for Fake {
    fn check(&self, request: CheckRequest) -> CheckFuture {
        let key = String::from_utf8_lossy(&request.key).into_owned();
        self.asked.lock().unwrap().push(request);
        Box::pin(async move {
            match key.as_str() {
                "policy" => Err(CheckError::Policy("policy own: line 3: nil".to_owned())),
                "list" => Err(CheckError::WrongType("the key holds a list".to_owned())),
                "full" => Err(CheckError::Unavailable(
                    "BUSY shard mailbox is full, try again".to_owned(),
                )),
                "unknown" => Err(CheckError::Invalid {
                    field: "policy",
                    reason: "there is no policy 'nope'".to_owned(),
                }),
                "never" => std::future::pending().await,
                _ => Ok(CheckAnswer {
                    allowed: key != "denied",
                    limit: 100,
                    remaining: 99,
                    retry_after_ms: if key == "denied" { 250 } else { 0 },
                    reset_at_ms: 1_700_000_000_000,
                    source: "owner",
                }),
            }
        })
    }
}

impl ClusterBackend for Fake {
    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }
}

struct Fixture {
    addr: SocketAddr,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    backend: Arc<Fake>,
    server: Option<AdminServer>,
}

impl Fixture {
    fn start(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.limits.admin_request_ms = 10_000;
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new("n", 1, vec!["token_bucket".to_owned()]));
        let (readiness, backend) = (Arc::new(Readiness::default()), Arc::new(Fake::default()));
        let server = AdminServer::start(
            listener,
            &config,
            Arc::clone(&metrics),
            Arc::clone(&readiness),
            Arc::clone(&backend) as Arc<dyn Backend>,
        );
        Self {
            addr,
            metrics,
            readiness,
            backend,
            server: Some(server.unwrap()),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends raw bytes, reads to the end.
    fn send(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        read_reply(&mut stream)
    }

    fn get(&self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n").as_bytes())
    }

    fn post(&self, headers: &str, body: &str) -> Reply {
        let length = body.len();
        self.send(
            format!(
                "POST /v1/check HTTP/1.1\r\nhost: n\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        )
    }

    fn check(&self, body: &str) -> Reply {
        self.post("content-type: application/json\r\n", body)
    }

    fn hits(&self, bound: Bound) -> u64 {
        self.metrics.shared.limit_hits(bound).get()
    }
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn failure(&self) -> (u16, Option<String>, String) {
        let json = self.json();
        let error = &json["error"];
        (
            self.status,
            error["field"].as_str().map(str::to_owned),
            error["reason"].as_str().unwrap().to_owned(),
        )
    }
}

fn read_reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // A peer that closes with unread input resets; what came before counts.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Reply {
        status: head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_default(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

const CHECK: &str = r#"{"key":"user:1","limit":100,"per":"1m"}"#;

#[test]
fn says_how_the_node_is() {
    let fixture = Fixture::start(|_| {});
    assert_eq!(fixture.get("/healthz").status, 200);
    let reply = fixture.get("/readyz");
    assert_eq!((reply.status, reply.body.as_str()), (503, "starting\n"));
    fixture.readiness.ready();
    assert_eq!(fixture.get("/readyz").status, 200);
    fixture.backend.leaving.store(true, Ordering::Relaxed);
    let reply = fixture.get("/readyz");
    assert_eq!((reply.status, reply.body.as_str()), (503, "leaving\n"));
    fixture.backend.leaving.store(false, Ordering::Relaxed);
    assert_eq!(fixture.get("/readyz").status, 200);
    fixture.readiness.draining();
    fixture.readiness.ready();
    let reply = fixture.get("/readyz");
    assert_eq!((reply.status, reply.body.as_str()), (503, "draining\n"));
    assert_eq!(fixture.get("/healthz").body, "ok\n");
}

#[test]
fn gives_metrics_as_prometheus_text() {
    let fixture = Fixture::start(|_| {});
    fixture.metrics.worker(0).policies[0].denied.add(7);
    let reply = fixture.get("/metrics");
    assert_eq!(reply.status, 200);
    assert!(
        reply
            .head
            .to_ascii_lowercase()
            .contains("content-type: text/plain; version=0.0.4"),
        "{}",
        reply.head
    );
    assert!(
        reply
            .body
            .contains("tollgate_checks_total{policy=\"token_bucket\",verdict=\"denied\"} 7\n")
    );
}

#[test]
fn decides_checks() {
    let fixture = Fixture::start(|_| {});
    let reply = fixture.check(CHECK);
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.body,
        r#"{"allowed":true,"limit":100,"remaining":99,"retry_after_ms":0,"reset_at_ms":1700000000000,"source":"owner"}"#
    );
    let reply = fixture.check(r#"{"key":"denied","rule":"free","cost":2}"#);
    assert_eq!((reply.status, reply.json()["allowed"].as_bool()), (200, Some(false)));
    let asked = fixture.backend.asked.lock().unwrap();
    assert_eq!(asked[0], body::parse(CHECK.as_bytes(), 64).unwrap());
    assert_eq!(asked[1].against, Against::Rule("free".to_owned()));
}

#[test]
fn failures_have_a_status_and_a_reason() {
    let fixture = Fixture::start(|_| {});
    let check = |key: &str| fixture.check(&CHECK.replace("user:1", key)).failure();
    let failure = |status, field: Option<&str>, reason: &str| (status, field.map(str::to_owned), reason.to_owned());
    assert_eq!(check("policy"), failure(500, None, "policy own: line 3: nil"));
    assert_eq!(check("list"), failure(409, None, "the key holds a list"));
    assert_eq!(
        check("full"),
        failure(503, None, "BUSY shard mailbox is full, try again")
    );
    assert_eq!(
        check("unknown"),
        failure(400, Some("policy"), "there is no policy 'nope'")
    );
    assert_eq!(
        fixture.check(&CHECK.replace("100", "0")).failure(),
        failure(400, Some("limit"), "must be a whole number from 1 to 1000000000000")
    );
    let (status, field, reason) = fixture.check(&CHECK.replace("per", "window")).failure();
    assert_eq!((status, field.as_deref()), (400, Some("window")));
    assert!(reason.starts_with("is unknown; a check has limit, per, "), "{reason}");
    assert_eq!(fixture.check("{").failure().0, 400);
    assert_eq!(fixture.get("/v1/check").failure().0, 405);
    assert_eq!(fixture.get("/v2").failure().0, 404);
    for headers in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/jsonx\r\n",
    ] {
        assert_eq!(fixture.post(headers, CHECK).failure().0, 415);
    }
    assert_eq!(
        fixture
            .post("content-type: Application/JSON; charset=utf-8\r\n", CHECK)
            .status,
        200
    );
    assert_eq!(fixture.backend.asked.lock().unwrap().len(), 5);
}

#[test]
fn asks_for_the_password_where_it_matters() {
    let fixture = Fixture::start(|config| config.password = Some(crate::config::Password::new("s3cret")));
    let reply = fixture.check(CHECK);
    assert_eq!(reply.failure().0, 401);
    assert!(reply.head.to_ascii_lowercase().contains("www-authenticate: basic"));
    let with = |value: &str| {
        fixture.post(
            &format!("content-type: application/json\r\nauthorization: {value}\r\n"),
            CHECK,
        )
    };
    assert_eq!(with("Bearer wrong").status, 401);
    assert_eq!(with("Bearer s3cret").status, 200);
    assert_eq!(with("Basic OnMzY3JldA==").status, 200);
    for path in ["/healthz", "/metrics"] {
        assert_eq!(fixture.get(path).status, 200);
    }
}

#[test]
fn large_bodies_are_refused_and_counted() {
    let fixture = Fixture::start(|config| config.limits.admin_body_bytes = 1_024);
    let blanks = " ".repeat(1_025 - CHECK.len());
    assert_eq!(fixture.check(&format!("{CHECK}{}", &blanks[1..])).status, 200);
    let (status, _, reason) = fixture.check(&format!("{CHECK}{blanks}")).failure();
    assert_eq!((status, reason.as_str()), (413, "the body is larger than 1024 bytes"));
    let chunks = format!("401\r\n{CHECK}{blanks}\r\n0\r\n\r\n");
    let chunked = format!(
        "POST /v1/check HTTP/1.1\r\nhost: n\r\nconnection: close\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n{chunks}"
    );
    assert_eq!(fixture.send(chunked.as_bytes()).status, 413);
    assert_eq!(fixture.hits(Bound::AdminBodyBytes), 2);
}

#[test]
fn large_heads_are_refused_and_counted() {
    let fixture = Fixture::start(|config| config.limits.admin_head_bytes = 8_192);
    let reply = fixture.send(format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(10_000)).as_bytes());
    assert_eq!(reply.status, 431);
    eventually(|| fixture.hits(Bound::AdminHeadBytes) == 1);
}

#[test]
fn slow_requests_cost_only_themselves() {
    let fixture = Fixture::start(|config| config.limits.admin_request_ms = 200);
    let started = Instant::now();
    let mut silent = fixture.connect();
    let mut head = fixture.connect();
    head.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let mut body = fixture.connect();
    body.write_all(
        b"POST /v1/check HTTP/1.1\r\nhost: n\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    )
    .unwrap();
    assert_eq!(fixture.get("/healthz").status, 200);
    assert_eq!(read_reply(&mut body).status, 408);
    assert!([0, 408].contains(&read_reply(&mut head).status));
    assert_eq!(read_reply(&mut silent).status, 0);
    assert_eq!(fixture.check(&CHECK.replace("user:1", "never")).failure().0, 503);
    assert!(started.elapsed() < Duration::from_secs(20));
    eventually(|| fixture.hits(Bound::AdminRequestMs) == 4);
}

#[test]
fn a_peer_that_takes_no_answers_is_dropped() {
    let fixture = Fixture::start(|config| config.limits.admin_request_ms = 200);
    let mut stream = fixture.connect();
    stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    // Asks without reading until both socket buffers are full and the listener has given up.
    let request = b"GET /metrics HTTP/1.1\r\nhost: n\r\n\r\n".repeat(64);
    let started = Instant::now();
    while stream.write_all(&request).is_ok() {
        assert!(started.elapsed() < Duration::from_secs(30));
    }
    assert_eq!(fixture.get("/healthz").status, 200);
}

#[test]
fn connections_above_the_bound_are_told_so() {
    let fixture = Fixture::start(|config| config.limits.admin_connections = 2);
    let request = b"GET /healthz HTTP/1.1\r\nhost: n\r\n\r\n";
    let held: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = fixture.connect();
            stream.write_all(request).unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).unwrap();
            assert_eq!(&first, b"HTTP/1.1 200");
            stream
        })
        .collect();
    let reply = read_reply(&mut fixture.connect());
    assert_eq!(reply.failure(), (503, None, "too many admin connections".to_owned()));
    assert!(reply.head.contains(&format!("content-length: {}", reply.body.len())));
    assert_eq!(fixture.hits(Bound::AdminConnections), 1);
    drop(held);
    eventually(|| fixture.get("/healthz").status == 200);
}

#[test]
fn one_connection_takes_many_requests() {
    let fixture = Fixture::start(|_| {});
    let mut stream = fixture.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: n\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(b"ok\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            reply.push(byte[0]);
        }
    }
}

#[test]
fn stopping_answers_what_was_asked_and_frees_the_port() {
    let mut fixture = Fixture::start(|_| {});
    let _idle = fixture.connect();
    assert_eq!(fixture.get("/healthz").status, 200);
    let started = Instant::now();
    fixture.server.take().unwrap().stop();
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(TcpStream::connect(fixture.addr).is_err());
    TcpListener::bind(fixture.addr).unwrap();
}

#[test]
fn nonsense_breaks_nothing() {
    let fixture = Fixture::start(|_| {});
    for bytes in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"*1\r\n$4\r\nPING\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\0",
    ] {
        let mut stream = fixture.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let reply = read_reply(&mut stream);
        assert!([0, 400, 505].contains(&reply.status), "{reply:?}");
    }
    assert_eq!(fixture.get("/healthz").status, 200);
}

fn eventually(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
}
