//! Policies of the operator's own: the way in for every check, and what a bad one can do.

use std::time::{Duration, Instant};
use tollgate_suite::{Node, ScratchDir, run_tollgate, until};

/// A policy that decides what `body` says; `body` sees limit, now, cost, level.
fn policy(body: &str) -> String {
    format!(
        "return {{ version = 1, fields = {{ \"level\" }}, burst = \"limit\",\n\
         check = function(limit, now, cost, level)\n{body}\nend,\n\
         full_at = function(limit, level) return 9000000000000000 end }}\n"
    )
}

const DENY_ALL: &str = "return false, 0, 1000000, 1";
const COUNT: &str = "level = (level or 0) + cost\nreturn true, math.max(limit.burst - level, 0), 0, level";

#[test]
fn policies_that_deny_everything_find_every_way_in() {
    let dir = ScratchDir::new("deny");
    for name in [
        "token_bucket",
        "leaky_bucket",
        "fixed_window",
        "sliding_window",
        "sliding_log",
    ] {
        dir.write(&format!("{name}.lua"), &policy(DENY_ALL));
    }
    let config = dir.write("c.toml", "[[rules]]\nid = \"r\"\nlimit = 100\nwindow = \"1m\"\n");
    let lua = dir.path().to_str().expect("a path");
    for workers in ["1", "2"] {
        let node = Node::start(&[
            "--workers",
            workers,
            "--lua",
            lua,
            "--config",
            config.to_str().expect("a path"),
        ]);
        let mut client = node.client();
        for name in [
            "token_bucket",
            "leaky_bucket",
            "fixed_window",
            "sliding_window",
            "sliding_log",
        ] {
            let reply = client.line(&format!("RL.CHECK {name} LIMIT 100 PER 1m POLICY {name}"));
            assert_eq!(reply.items()[0].int(), 0, "{name}");
        }
        assert_eq!(client.line("RL.CHECK k LIMIT 100 PER 1m").items()[0].int(), 0);
        assert_eq!(client.line("RL.CHECK k RULE r").items()[0].int(), 0);
        assert_eq!(
            client.line("CL.THROTTLE k 99 100 60").items()[0].int(),
            1,
            "1 is limited"
        );
        let http = node.http("POST", "/v1/check", r#"{"key":"k","limit":100,"per":"1m"}"#);
        assert_eq!(http.json()["allowed"], false);
        let http = node.http("POST", "/v1/check", r#"{"key":"k","rule":"r"}"#);
        assert_eq!(http.json()["allowed"], false);
    }
}

#[test]
fn hostile_policies_fail_their_check_and_leave_the_bucket() {
    let hostile = [
        ("error", "error('no')"),
        ("loop", "while true do end"),
        (
            "bomb",
            "local t = {} while true do t[#t + 1] = { 1, 2, 3, 4, 5, 6, 7, 8 } end",
        ),
        ("nan", "return true, 1, 0, 0/0"),
        ("nothing", "return"),
        ("minting", "return true, 10000000, 0, 1"),
        ("deep", "local function f(n) return 1 + f(n + 1) end return f(1)"),
    ];
    let dir = ScratchDir::new("hostile");
    for (name, body) in hostile {
        // Well behaved up to the third check, so that there is a bucket to leave as it was.
        let body = format!("if (level or 0) >= 3 and cost > 0 then {body} end\n{COUNT}");
        dir.write(&format!("{name}.lua"), &policy(&body));
    }
    let node = Node::start(&["--workers", "1", "--lua", dir.path().to_str().expect("a path")]);
    let mut client = node.client();
    for (name, _) in hostile {
        let check = format!("RL.CHECK {name} LIMIT 10 PER 1m POLICY {name}");
        for remaining in [9, 8, 7] {
            assert_eq!(client.line(&check).items()[2].int(), remaining, "{name}");
        }
        for _ in 0..3 {
            let error = client.line(&check);
            assert!(
                error.error().starts_with(&format!("ERR policy '{name}' failed: ")),
                "{name}: {error:?}"
            );
        }
        let peek = client.line(&format!("{check} COST 0"));
        assert_eq!(peek.items()[2].int(), 7, "{name}: the bucket is as it was");
        assert_eq!(
            client.line("RL.CHECK good LIMIT 1000 PER 1h").items()[0].int(),
            1,
            "others go on"
        );
    }
    let metrics = node.http("GET", "/metrics", "").body;
    assert!(metrics.contains("tollgate_policy_faults_total"), "faults are counted");
}

#[test]
fn a_limit_that_a_policy_does_not_take_is_the_askers_fault() {
    let dir = ScratchDir::new("refusing");
    let small = policy(COUNT).replace("version = 1,", "version = 1, max_limit = 10,");
    dir.write("small.lua", &small);
    let wide = "return { version = 1, fields = \"buffer\", burst = \"limit\",\n\
                max_bytes = function(limit) return limit.limit * 100 end,\n\
                check = function(limit, now, cost, state, len) return true, 1, 0, len end,\n\
                full_at = function(limit, state, len) return 0 end }\n";
    dir.write("wide.lua", wide);
    dir.write("boom.lua", &policy("error('boom')"));
    dir.write(
        "third.lua",
        &policy(&format!("assert((level or 0) < 2, 'no third')\n{COUNT}")),
    );
    dir.write("slow.lua", &policy("while true do end"));
    let node = Node::start(&["--workers", "2", "--lua", dir.path().to_str().expect("a path")]);
    let check = |policy: &str, limit: u32| {
        let body = format!(r#"{{"key":"k-{policy}","limit":{limit},"per":"1m","policy":"{policy}"}}"#);
        let reply = node.http("POST", "/v1/check", &body);
        (reply.status, reply.json()["error"].clone())
    };
    let mut client = node.client();
    for (policy, text) in [
        ("sliding_log", "must be at most 10000 for policy 'sliding_log'"),
        ("small", "must be at most 10 for policy 'small'"),
        (
            "wide",
            "is too large for policy 'wide': a state under this limit may take 2000000 bytes, and at most 131072 are allowed",
        ),
    ] {
        assert_eq!(check(policy, 10).0, 200);
        let (status, error) = check(policy, 20_000);
        assert_eq!((status, &error["field"]), (400, &"limit".into()), "{error}");
        assert_eq!(error["reason"], text);
        let reply = client.line(&format!("RL.CHECK b-{policy} LIMIT 20000 PER 1m POLICY {policy}"));
        assert_eq!(reply.error(), format!("ERR LIMIT {text}"));
    }
    // None of that is a fault.
    std::thread::sleep(Duration::from_millis(300));
    let faults = |policy: &str| node.metric(&format!("tollgate_policy_faults_total{{policy=\"{policy}\""));
    for policy in ["sliding_log", "small", "wide"] {
        assert_eq!(faults(policy).unwrap_or(0.0), 0.0, "{policy}");
    }
    // What fails for other reasons is the node's fault.
    let (status, error) = check("boom", 10);
    assert_eq!((status, &error["field"]), (500, &serde_json::Value::Null), "{error}");
    let reason = error["reason"].as_str().expect("a text");
    assert!(
        reason.starts_with("policy 'boom' failed: ") && reason.ends_with(": boom"),
        "{error}"
    );
    until("it counts", || faults("boom") == Some(1.0));
    assert_eq!([0; 3].map(|_| check("third", 10).0), [200, 200, 500]);
    assert_eq!(check("slow", 10).0, 500);
    // A key that holds something else is in the asker's way, and so is a bucket of another policy.
    let reply = node.http(
        "POST",
        "/v1/check",
        r#"{"key":"k-small","limit":10,"per":"1m","on_failure":"closed"}"#,
    );
    assert_eq!(reply.status, 409, "{}", reply.body);
    assert_eq!(
        reply.json()["error"]["reason"],
        "bucket has policy 'small', not 'token_bucket': ask with its own, or reset it with RL.RESET over the Redis protocol"
    );
    assert_eq!(client.line("SET text x").text(), "OK");
    let reply = node.http("POST", "/v1/check", r#"{"key":"text","limit":5,"per":"1m"}"#);
    assert_eq!(reply.status, 409, "{}", reply.body);
    assert_eq!(client.line("GET text").text(), "x");
}

#[test]
fn an_endless_loop_does_not_hold_up_other_connections() {
    let dir = ScratchDir::new("loop");
    dir.write("loop.lua", &policy("while true do end"));
    let node = Node::start(&["--workers", "1", "--lua", dir.path().to_str().expect("a path")]);
    let listen = node.listen();
    // 200 checks of a millisecond each, in one pipeline.
    let pipeline: Vec<Vec<String>> = (0..200)
        .map(|i| {
            format!("RL.CHECK {i} LIMIT 1 PER 1m POLICY loop")
                .split(' ')
                .map(str::to_owned)
                .collect()
        })
        .collect();
    let looping = std::thread::spawn(move || {
        let mut client = tollgate_suite::Client::connect(listen);
        client
            .pipeline(&pipeline)
            .iter()
            .filter(|reply| reply.is_error())
            .count()
    });
    let mut client = node.client();
    let mut answered = 0;
    let started = Instant::now();
    while !looping.is_finished() {
        assert_eq!(client.line("RL.CHECK mine LIMIT 1000000 PER 1h").items()[0].int(), 1);
        answered += 1;
        assert!(started.elapsed() < Duration::from_secs(50), "the pipeline never ends");
    }
    assert_eq!(looping.join().expect("the pipeline"), 200);
    // One pipeline of 200 ms would let through one answer; letting others run after each check lets through about 200.
    assert!(answered > 20, "only {answered} answers while the other pipeline ran");
}

#[test]
fn a_policy_file_that_does_not_compile_is_one_clear_line() {
    let dir = ScratchDir::new("broken");
    dir.write("broken.lua", "return {");
    let failure = run_tollgate(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--lua",
        dir.path().to_str().expect("a path"),
    ]);
    assert_eq!(failure.status.code(), Some(1));
    let line = failure.log.trim().to_owned();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(
        line.contains("broken.lua") && line.contains(dir.path().to_str().expect("a path")),
        "{line}"
    );
}
