use super::*;
use crate::Face;
use crate::test_node::{TestNode, run, session};
use crate::test_request::with_line;
use tollgate_protocol::Proto::{self, Resp2, Resp3};

fn node(name: &str, host: &str, is_suspect: bool) -> ClusterNode {
    ClusterNode {
        name: name.to_owned(),
        host: host.to_owned(),
        port: 6380,
        peer_port: 7379,
        epoch: 3,
        heard_unix_ms: u64::from(name != "a") * 1_700_000_000_000,
        is_suspect,
    }
}

/// Slots 0 to 4: two of this node, one of nobody, one of each.
fn test_node() -> TestNode {
    TestNode {
        topology: Some(Topology {
            nodes: vec![node("a", "127.0.0.1", false), node("b", "b.example", true)],
            me: 0,
            holders: vec![Some(0), Some(0), None, Some(1), Some(0)],
            epoch: 5,
            messages_sent: 7,
            messages_received: 8,
        }),
        ..TestNode::default()
    }
}

fn ask(proto: Proto, line: &str) -> String {
    let node = test_node();
    let mut session = session(&node, 1);
    (session.proto, session.face) = (proto, Face::Redirect);
    with_line(line, |request| run(&node, &mut session, request))
}

#[test]
fn ids_are_of_names_alone() {
    let id = node("a", "127.0.0.1", false).id();
    assert_eq!(id, node("a", "other", true).id());
    assert_ne!(id, node("b", "127.0.0.1", false).id());
    assert!(
        id.len() == 40
            && id
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
    );
    assert_ne!(id, node("a", "127.0.0.1", false).shard_id());
    assert_eq!(ask(Resp2, "CLUSTER MYID"), format!("$40\r\n{id}\r\n"));
}

#[test]
fn slots_that_nobody_serves_are_not_shown() {
    let ids = ["a", "b"].map(|name| node(name, "", false).id());
    let range = |first, last, host: &str, id: &str| {
        format!(
            "*3\r\n:{first}\r\n:{last}\r\n*4\r\n${}\r\n{host}\r\n:6380\r\n$40\r\n{id}\r\n",
            host.len()
        )
    };
    let ranges = [
        range(0, 1, "127.0.0.1", &ids[0]),
        range(3, 3, "b.example", &ids[1]),
        range(4, 4, "127.0.0.1", &ids[0]),
    ];
    for (proto, nothing) in [(Resp2, "*0\r\n"), (Resp3, "%0\r\n")] {
        let expected: String = ranges.iter().map(|range| format!("{range}{nothing}")).collect();
        assert_eq!(ask(proto, "CLUSTER SLOTS"), format!("*3\r\n{expected}"));
    }
    let text = ask(Resp2, "CLUSTER NODES");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines[..2],
        [
            format!("{} 127.0.0.1:6380@7379 myself,master - 0 0 3 connected 0-1 4", ids[0]),
            format!(
                "{} b.example:6380@7379,b.example master,fail? - 0 1700000000000 3 connected 3",
                ids[1]
            ),
        ]
    );
}

#[test]
fn the_state_is_ok_when_all_slots_are_served() {
    let info = ask(Resp2, "CLUSTER INFO");
    for line in [
        "cluster_state:fail",
        "cluster_slots_assigned:4",
        "cluster_slots_pfail:1",
        "cluster_known_nodes:2",
        "cluster_size:2",
        "cluster_current_epoch:5",
        "cluster_my_epoch:3",
        "cluster_stats_messages_sent:7",
    ] {
        assert!(info.contains(&format!("{line}\r\n")), "{line}: {info}");
    }
    assert!(ask(Resp3, "CLUSTER INFO").starts_with("="));
}

#[test]
fn what_a_cluster_accepts_and_refuses() {
    for line in ["READONLY", "READWRITE", "ASKING"] {
        assert_eq!(ask(Resp2, line), "+OK\r\n", "{line}");
    }
    assert_eq!(ask(Resp2, "CLUSTER KEYSLOT {a}b"), ":15495\r\n");
    assert_eq!(ask(Resp2, "CLUSTER REPLICAS x"), "-ERR Unknown node x\r\n");
    let id = node("b", "", false).id();
    assert_eq!(ask(Resp2, &format!("CLUSTER REPLICAS {id}")), "*0\r\n");
    assert_eq!(ask(Resp2, "SELECT 0"), "+OK\r\n");
    assert_eq!(ask(Resp2, "SELECT 1"), "-ERR SELECT is not allowed in cluster mode\r\n");
    assert_eq!(
        ask(Resp2, "SELECT x"),
        "-ERR value is not an integer or out of range\r\n"
    );
    assert!(ask(Resp2, "INFO cluster").contains("cluster_enabled:1\r\n"));
    assert!(ask(Resp2, "INFO server").contains("redis_mode:cluster\r\n"));
    assert!(ask(Resp2, "HELLO").contains("$7\r\ncluster\r\n"));
    for line in [
        "CLUSTER RESET",
        "CLUSTER MEET 127.0.0.1 1",
        "CLUSTER ADDSLOTS 1",
        "CLUSTER FAILOVER",
    ] {
        assert!(ask(Resp2, line).starts_with("-ERR unknown subcommand "), "{line}");
    }
}
