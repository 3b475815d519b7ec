//! Peers that are none: whoever reaches a node's peer address and is not of its cluster changes nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use tollgate_cluster::Incarnation;
use tollgate_cluster::wire::{Established, Handshake, Local, Progress, Sealer, Secret, Versions};
use tollgate_suite::{Node, ScratchDir, until};

use crate::cluster::Cluster;
use crate::load::Plan;

const SECRET: &str = "a secret of sixteen bytes or more";
const OTHER_SECRET: &str = "another secret that is long enough";
/// How often each of them tries.
const TIMES: usize = 20;
/// How long a peer that is refused may take to see that.
const END: Duration = Duration::from_secs(10);

/// Sends bytes to the node's peer address until it closes the connection.
fn send(node: &Node, bytes: &[u8]) {
    let mut stream = connect(node);
    // It may be closed before all of it is taken.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    until_closed(&mut stream);
}

fn connect(node: &Node) -> TcpStream {
    let stream = TcpStream::connect(node.peer().expect("a peer address")).expect("it listens");
    stream.set_read_timeout(Some(END)).expect("not zero");
    stream
}

fn until_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        // Nobody has read what was sent.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

/// Shakes hands with the node `b` as somebody; the connection, if it stands.
fn shake_hands(node: &Node, versions: Versions, secret: Option<&str>) -> (TcpStream, Option<Box<Established>>) {
    let local = Local {
        id: Incarnation {
            name: "mallory".into(),
            generation: 1,
        },
        cluster: "tollgate".into(),
        workers: 1,
        frame_bytes_max: 1 << 20,
        versions,
    };
    let secret = secret.map(|secret| Secret::new(secret.as_bytes()));
    let mut out = Vec::new();
    let mut handshake = Handshake::open(local, secret, 0, ("b".into(), 0), [7; 32], &mut out);
    let mut stream = connect(node);
    loop {
        stream.write_all(&out).expect("it takes that");
        out.clear();
        let mut bytes = [0; 2_048];
        let length = stream.read(&mut bytes).unwrap_or(0);
        if length == 0 {
            return (stream, None);
        }
        handshake.input().extend_from_slice(&bytes[..length]);
        match handshake.step(&mut out) {
            Progress::More => {}
            Progress::Done(established) => return (stream, Some(established)),
            Progress::Refused(_) => return (stream, None),
        }
    }
}

/// How often a node has refused connections for that reason.
fn refused(node: &Node, reason: &str) -> f64 {
    let line_start = format!("tollgate_peer_refused_total{{reason=\"{reason}\"}}");
    node.metric(&line_start).unwrap_or(0.0)
}

fn gossip_refused(node: &Node) -> f64 {
    node.metric("tollgate_gossip_datagrams_total{what=\"refused\"}")
        .unwrap_or(0.0)
}

/// Lines of the log with all of these words.
fn logged(node: &Node, words: &[&str]) -> usize {
    let log = node.log();
    log.lines()
        .filter(|line| words.iter().all(|word| line.contains(word)))
        .count()
}

#[test]
fn scenario_peers_that_are_none_change_nothing() {
    let dir = ScratchDir::new("secret");
    let secret_file = dir.write("secret", &format!("{SECRET}\n"));
    let secret_file = secret_file.to_str().expect("a path in text");
    let mut cluster = Cluster::start_in_network_with(&["a", "b", "c"], &["--cluster-secret-file", secret_file]);
    cluster.begin(Plan::default());
    cluster.run_for(Duration::from_secs(1));
    let views = |cluster: &Cluster| ["a", "b", "c"].map(|name| cluster.node(name).metric("tollgate_views_total"));
    let resident = |cluster: &Cluster| {
        cluster
            .node("b")
            .metric("process_resident_memory_bytes")
            .expect("a metric")
    };
    let (views_before, resident_before) = (views(&cluster), resident(&cluster));
    let ours = Versions { lowest: 1, highest: 1 };
    let b = cluster.node("b");

    for _ in 0..TIMES {
        send(b, b"GET / HTTP/1.1\r\n\r\n");
        send(b, &[0xff; 100_000]);
        // A frame of a gigabyte, and what there is of it.
        let mut long = b"TOLLPEER".to_vec();
        long.extend_from_slice(&(1_u32 << 30).to_le_bytes());
        long.extend_from_slice(&[0; 1 << 20]);
        send(b, &long);
        for (versions, secret) in [
            (Versions { lowest: 7, highest: 9 }, Some(SECRET)),
            (ours, Some(OTHER_SECRET)),
            (ours, None),
        ] {
            let (mut stream, established) = shake_hands(b, versions, secret);
            assert!(established.is_none());
            until_closed(&mut stream);
        }
        // All that a peer has said, once more. The answer to it was for another nonce.
        let heard = cluster.network.as_ref().expect("a network").heard("a", "b");
        assert!(heard.stream.len() > 200, "{} bytes", heard.stream.len());
        send(b, &heard.stream);
    }
    for (reason, times) in [
        ("not_a_peer", 2 * TIMES),
        ("frame", TIMES),
        ("version", TIMES),
        ("secret_wrong", 2 * TIMES),
        ("secret_missing", TIMES),
    ] {
        until(reason, || refused(b, reason) == times as f64);
        assert_eq!(
            logged(b, &["peer_refused", &format!("reason=\"{reason}\"")]),
            1,
            "{}",
            b.log()
        );
    }

    // Of one who has the secret a frame of a gigabyte is refused as well.
    let (mut stream, established) = shake_hands(b, ours, Some(SECRET));
    assert!(established.is_some(), "it has the secret");
    stream.write_all(&(1_u32 << 30).to_le_bytes()).expect("it takes that");
    stream.write_all(&[0; 1 << 20]).unwrap_or(());
    until_closed(&mut stream);

    // Gossip: garbage, sealed with another secret, changed, and once more.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let peer = b.peer().expect("a peer address");
    let stranger = Sealer::new(&Secret::new(OTHER_SECRET.as_bytes()), "tollgate", [7; 16]);
    let wall_ms = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_millis();
    let mut forged = 0;
    for _ in 0..TIMES {
        for heard in cluster.network.as_ref().expect("a network").heard("a", "b").datagrams {
            let mut changed = heard.clone();
            *changed.last_mut().expect("it is not empty") ^= 1;
            for datagram in [
                &b"garbage"[..],
                &[0xff; 60_000],
                &stranger.seal(wall_ms as u64, &heard),
                &changed,
            ] {
                socket.send_to(datagram, peer).expect("it can be sent");
                forged += 1;
            }
            // What was said before changes nothing, from whatever address it comes.
            socket.send_to(&heard, peer).expect("it can be sent");
            // No more at once than a socket takes.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(forged > 0);
    until("refused gossip", || gossip_refused(b) >= forged as f64 * 0.9);
    assert_eq!(logged(b, &["gossip_refused"]), 1, "{}", b.log());

    // A whole node with another secret is not heard.
    let other_file = dir.write("other", &format!("{OTHER_SECRET}\n"));
    let joins = peer.to_string();
    let args = [
        "--name",
        "x",
        "--workers",
        "1",
        "--join",
        &joins,
        "--cluster-secret-file",
    ];
    let stranger = Node::start(&[&args[..], &[other_file.to_str().expect("a path in text")]].concat());
    cluster.run_for(Duration::from_secs(2));
    drop(stranger);

    assert_eq!(views(&cluster), views_before, "the members are what they were");
    let grown = resident(&cluster) - resident_before;
    assert!(grown < 64e6, "{grown} bytes more");
    cluster.run_for(Duration::from_secs(1));
    cluster.end("bad peers").assert_planned();
}
