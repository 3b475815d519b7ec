//! What an operator does with a cluster: asks how it is, and has a node give its slots away.

use std::process::Command;
use tollgate_suite::{Client, Node, ScratchDir, until};

/// A node of a cluster: the first, or one that joins another.
fn start(name: &str, seed: Option<&Node>, more: &[&str]) -> Node {
    let mut args = vec!["--name", name, "--workers", "2"];
    let peer = seed.map(|seed| seed.peer().expect("a peer address").to_string());
    if let Some(peer) = &peer {
        args.extend(["--join", peer]);
    }
    args.extend(more);
    Node::start(&args)
}

/// What `tollgate cluster` came to: its exit status and what it printed.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

/// Runs `tollgate cluster` against a node.
fn cluster(node: &Node, args: &[&str]) -> Said {
    let mut command = Command::new(tollgate_suite::tollgate_path());
    let admin = node.admin().to_string();
    command.arg("cluster").args(args).args(["--admin", &admin]);
    let output = command.output().expect("the binary runs");
    Said {
        code: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Waits until the cluster is settled with so many members in the ring, and returns what there is to tell.
fn settled(node: &Node, ready: usize) -> serde_json::Value {
    let mut report = serde_json::Value::Null;
    until("the cluster is settled", || {
        report = cluster(node, &["status", "--json"]).json();
        let members = report["members"].as_array().expect("members");
        let in_ring = members.iter().filter(|member| member["state"] == "ready").count();
        report["settled"] == true && in_ring == ready
    });
    report
}

fn sum(report: &serde_json::Value, field: &str) -> u64 {
    let members = report["members"].as_array().expect("members");
    members
        .iter()
        .map(|member| {
            member["slots"][field]
                .as_u64()
                .unwrap_or_else(|| panic!("{field} in {member}"))
        })
        .sum()
}

/// Buckets of three tokens.
struct Buckets {
    /// How many checks of each were admitted, and whether its holder has decided all of them: one that does not answer in time, as on a
    /// busy machine, may have charged what another has decided in its place.
    admitted: Vec<(usize, bool)>,
}

impl Buckets {
    fn new(count: usize) -> Self {
        let admitted = vec![(0, true); count];
        Self { admitted }
    }

    /// Checks each once more.
    fn check(&mut self, client: &mut Client) {
        for (bucket, (admitted, by_holder)) in self.admitted.iter_mut().enumerate() {
            let reply = client.line(&format!("RL.CHECK bucket:{bucket} LIMIT 3 PER 1h"));
            *by_holder &= reply.items()[5].text() == "owner";
            *admitted += reply.items()[0].int() as usize;
        }
    }

    /// Asserts that so many checks of each were admitted.
    fn admitted(&self, count: usize) {
        let by_holders: Vec<usize> = self
            .admitted
            .iter()
            .filter(|(_, own)| *own)
            .map(|(count, _)| *count)
            .collect();
        assert!(
            by_holders.iter().all(|admitted| *admitted == count),
            "{:?}",
            self.admitted
        );
        assert!(!by_holders.is_empty(), "{:?}", self.admitted);
    }
}

#[test]
fn scenario_status_says_who_is_there_and_who_has_what() {
    let a = start("a", None, &[]);
    let alone = cluster(&a, &["status", "--wait", "30", "--json"]);
    assert_eq!(alone.code, 0, "{}{}", alone.out, alone.err);
    let report = alone.json();
    assert_eq!((sum(&report, "held"), sum(&report, "target")), (16_384, 16_384));
    let mut b = start("b", Some(&a), &["--set", "cluster.weight=2"]);
    let mut at_b = b.client();
    settled(&b, 2);
    for key in 0..100 {
        assert_eq!(at_b.line(&format!("SET key:{key} x")).text(), "OK");
    }
    until("every slot is followed", || {
        let report = cluster(&a, &["status", "--json"]).json();
        (sum(&report, "replicas_in_step"), sum(&report, "followed")) == (16_384, 16_384)
    });
    let report = settled(&a, 2);
    assert_eq!((sum(&report, "held"), sum(&report, "target")), (16_384, 16_384));
    assert_eq!((sum(&report, "to_move"), sum(&report, "unknown")), (0, 0));
    let [of_a, of_b] = report["members"].as_array().expect("members").as_slice() else {
        panic!("{report}")
    };
    assert_eq!((&of_a["name"], &of_b["name"]), (&"a".into(), &"b".into()));
    assert_eq!((&of_a["view"], &of_b["view"]), (&report["view"], &report["view"]));
    assert_eq!((&of_a["weight"], &of_b["weight"]), (&1.into(), &2.into()));
    assert_eq!((&of_b["workers"], &of_b["version"]), (&2.into(), &of_a["version"]));
    assert_eq!(of_b["listen"], b.listen().to_string());
    assert_eq!(of_b["peer"], b.peer().expect("a peer address").to_string());
    assert!(of_a["slots"]["held"].as_u64() < of_b["slots"]["held"].as_u64());
    assert!(of_b["slots"]["epoch_max"].as_u64() > Some(1), "slots have moved");
    // The other one says the same of both.
    let names = |report: &serde_json::Value| -> Vec<serde_json::Value> {
        let members = report["members"].as_array().expect("members");
        members.iter().map(|member| member["generation"].clone()).collect()
    };
    assert_eq!(names(&cluster(&b, &["status", "--json"]).json()), names(&report));
    // For people.
    let text = cluster(&a, &["status"]);
    assert_eq!(text.code, 0);
    assert!(text.out.starts_with("settled: 2 members, view "), "{}", text.out);
    assert!(text.out.lines().all(|line| line.chars().count() <= 100), "{}", text.out);
    b.kill();
    until("the death is seen", || {
        let report = cluster(&a, &["status", "--json"]).json();
        report["dead"]
            .as_array()
            .is_some_and(|dead| dead.iter().any(|dead| dead["name"] == "b"))
    });
    let report = settled(&a, 1);
    assert_eq!(sum(&report, "held"), 16_384);
    assert!(cluster(&a, &["status"]).out.contains("b is dead"));
}

#[test]
fn scenario_a_member_that_does_not_answer_is_a_suspect() {
    let a = start("a", None, &["--set", "cluster.silence_min_ms=30s"]);
    let b = start("b", Some(&a), &["--set", "cluster.silence_min_ms=30s"]);
    settled(&a, 2);
    b.signal("STOP");
    let said = cluster(&a, &["status", "--json"]);
    b.signal("CONT");
    assert_eq!(said.code, 1, "{}", said.out);
    let report = said.json();
    let of_b = &report["members"][1];
    assert_eq!((&of_b["name"], &of_b["state"]), (&"b".into(), &"suspect".into()));
    assert!(of_b["slots"].is_null() && report["settled"] == false);
    settled(&a, 2);
}

#[test]
fn scenario_a_node_gives_its_slots_away_goes_on_answering_and_comes_back() {
    const KEYS: usize = 200;
    let secret = ScratchDir::new("secret");
    let secret = secret.path().join("secret");
    std::fs::write(&secret, "a secret of this test\n").expect("a file");
    let secret = ["--cluster-secret-file", secret.to_str().expect("a path")];
    let a = start("a", None, &secret);
    let b = start("b", Some(&a), &secret);
    let c = start("c", Some(&a), &secret);
    settled(&a, 3);
    let mut at_b = b.client();
    let mut buckets = Buckets::new(KEYS);
    for key in 0..KEYS {
        assert_eq!(at_b.line(&format!("SET key:{key} value:{key}")).text(), "OK");
    }
    buckets.check(&mut at_b);
    buckets.admitted(1);
    assert_eq!(b.http("GET", "/readyz", "").status, 200);
    // Asked of another than the one that is named.
    let drained = cluster(&c, &["drain", "b", "--wait", "60"]);
    assert_eq!(
        (drained.code, drained.out.as_str()),
        (0, "b holds no slot and owes nothing\n"),
        "{}",
        drained.err
    );
    let ready = b.http("GET", "/readyz", "");
    assert_eq!((ready.status, ready.body.as_str()), (503, "leaving\n"));
    let report = settled(&b, 2);
    let of_b = &report["members"][1];
    assert_eq!((&of_b["state"], &of_b["slots"]["held"]), (&"leaving".into(), &0.into()));
    assert_eq!(sum(&report, "held"), 16_384);
    for key in 0..KEYS {
        assert_eq!(at_b.line(&format!("GET key:{key}")).text(), format!("value:{key}"));
    }
    buckets.check(&mut at_b);
    buckets.admitted(2);
    let back = cluster(&a, &["drain", "b", "--undo", "--wait", "60"]);
    assert_eq!(
        (back.code, back.out.as_str()),
        (0, "b has its share of the slots\n"),
        "{}",
        back.err
    );
    assert_eq!(b.http("GET", "/readyz", "").status, 200);
    let report = settled(&a, 3);
    assert!(report["members"][1]["slots"]["held"].as_u64() > Some(0));
    for key in 0..KEYS {
        assert_eq!(at_b.line(&format!("GET key:{key}")).text(), format!("value:{key}"));
    }
    buckets.check(&mut at_b);
    buckets.admitted(3);
    buckets.check(&mut at_b);
    buckets.admitted(3);
}

#[test]
fn the_last_node_keeps_its_slots_and_who_is_unknown_cannot_be_drained() {
    let a = start("a", None, &[]);
    settled(&a, 1);
    let refused = cluster(&a, &["drain", "a"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("no other member is ready"), "{}", refused.err);
    let unknown = cluster(&a, &["drain", "b"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("no member has the name \"b\""), "{}", unknown.err);
    assert_eq!(a.http("GET", "/readyz", "").status, 200);
    for (body, status) in [
        (r#"{"name":"b"}"#, 404),
        (r#"{"name":"a"}"#, 409),
        (r#"{"nam":"a"}"#, 400),
        ("[]", 400),
    ] {
        assert_eq!(a.http("POST", "/v1/cluster/drain", body).status, status, "{body}");
    }
    assert_eq!(a.http("GET", "/v1/cluster/drain", "").status, 405);
}

#[test]
fn who_cannot_be_asked_is_an_error_that_says_so() {
    let a = start("a", None, &["--peer", "off"]);
    let said = cluster(&a, &["status"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("this node is in no cluster"), "{}", said.err);
    let mut command = Command::new(tollgate_suite::tollgate_path());
    // Not the admin listener.
    let output = command
        .args(["cluster", "status", "--admin", &a.listen().to_string()])
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn where_there_is_a_password_operators_give_it() {
    let dir = ScratchDir::new("password");
    let file = dir.path().join("password");
    std::fs::write(&file, "a word: é\n").expect("a file");
    let file = file.to_str().expect("a path");
    let a = start("a", None, &["--password-file", file]);
    for args in [&["status"][..], &["drain", "a"]] {
        let said = cluster(&a, args);
        assert_eq!(said.code, 2);
        assert!(said.err.contains("--password-file"), "{}", said.err);
    }
    let said = cluster(&a, &["status", "--wait", "30", "--password-file", file]);
    assert_eq!(said.code, 0, "{}", said.err);
}
