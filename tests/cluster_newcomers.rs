//! What a node that joins others says of it: while it joins, when it hears nobody, and when it has other rules.

use tollgate_suite::{Node, ScratchDir, until};

/// Waits until it says that it is ready, which is not before it has a place in a cluster.
fn until_ready(node: &Node) {
    until("it is ready", || {
        let ready = node.http("GET", "/readyz", "");
        assert!(ready.status == 200 || ready.body.trim() == "joining", "{ready:?}");
        ready.status == 200
    });
    assert!(logs(node, "member_state", &["state=Ready"]), "{}", node.log());
}

fn logs(node: &Node, event: &str, what: &[&str]) -> bool {
    let event = format!("event=\"{event}\"");
    node.log()
        .lines()
        .any(|line| line.contains(&event) && what.iter().all(|what| line.contains(what)))
}

#[test]
fn a_newcomer_with_another_secret_says_that_it_hears_nobody() {
    let dir = ScratchDir::new("secrets");
    let [one, two] = ["one", "two"].map(|name| {
        let path = dir.write(name, &format!("a secret of sixteen bytes: {name}"));
        path.to_str().expect("a path").to_owned()
    });
    let a = Node::start(&["--name", "a", "--workers", "1", "--cluster-secret-file", &one]);
    assert_eq!(a.http("GET", "/readyz", "").status, 200, "it has nobody to wait for");
    let peer = a.peer().expect("a peer address").to_string();
    let args = ["--name", "b", "--workers", "1", "--join", &peer];
    let b = Node::start(&[&args[..], &["--cluster-secret-file", &two]].concat());
    until_ready(&b);
    assert!(
        logs(&b, "alone", &["WARN", &peer, "heard nobody of cluster.join in 5 s"]),
        "{}",
        b.log()
    );
    assert!(!logs(&a, "alone", &[]), "{}", a.log());
}

#[test]
fn nodes_with_other_rules_say_so_and_errors_name_the_node() {
    let rule = |id: &str| format!("[[rules]]\nid = \"{id}\"\nlimit = 5\nwindow = \"1h\"\n\n");
    let dir = ScratchDir::new("rules");
    let write = |name: &str, text: &str| dir.write(name, text).to_str().expect("a path").to_owned();
    let some = write("some.toml", &rule("both"));
    let more = write("more.toml", &(rule("more") + &rule("both")));
    let start = |name: &str, config: &str, seed: Option<&Node>| {
        let peer = seed.map(|seed| seed.peer().expect("a peer address").to_string());
        let mut args = vec!["--name", name, "--workers", "1", "--config", config];
        if let Some(peer) = &peer {
            args.extend(["--join", peer]);
        }
        Node::start(&args)
    };
    let a = start("a", &some, None);
    let b = start("b", &more, Some(&a));
    let c = start("c", &more, Some(&a));
    [&b, &c].into_iter().for_each(until_ready);
    let differing = |node: &Node| node.metric("tollgate_members_differing{what=\"rules\"}");
    until("they know", || {
        [&a, &b, &c].map(differing) == [Some(2.0), Some(1.0), Some(1.0)]
    });
    for (node, name, others) in [(&a, "a", &["b", "c"][..]), (&b, "b", &["a"][..]), (&c, "c", &["a"][..])] {
        for other in others {
            let (name, other) = (format!("name=\"{name}\""), format!("other=\"{other}\""));
            let fields = [name.as_str(), other.as_str(), "what=\"rules\"", "WARN"];
            assert!(logs(node, "files_differ", &fields), "{name} {other}: {}", node.log());
        }
    }
    assert!(!logs(&b, "files_differ", &["other=\"c\""]), "{}", b.log());
    assert_eq!(b.metric("tollgate_members_differing{what=\"policies\"}"), Some(0.0));
    // Each key is decided where it is: where there is no such rule the error says who that is.
    until("all slots are where they belong", || {
        let report = a.http("GET", "/v1/cluster", "").json();
        report["settled"] == true && report["members"].as_array().is_some_and(|members| members.len() == 3)
    });
    let mut client = b.client();
    let replies: Vec<_> = (0..60)
        .map(|key| client.line(&format!("RL.CHECK key:{key} RULE more")))
        .collect();
    let (refused, decided): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.is_error());
    assert!(!refused.is_empty() && !decided.is_empty(), "{replies:?}");
    for reply in refused {
        assert_eq!(reply.error(), "ERR unknown rule 'more' at node 'a'");
    }
    let statuses: Vec<u16> = (0..60)
        .map(|key| {
            let body = format!(r#"{{"key":"key:{key}","rule":"more"}}"#);
            b.http("POST", "/v1/check", &body).status
        })
        .collect();
    for (reply, status) in replies.iter().zip(statuses) {
        assert_eq!(status, if reply.is_error() { 400 } else { 200 }, "{reply:?}");
    }
}
