//! The peers' protocol, version 1, byte for byte: tests/data/peer_v1 has what each message looked like when it was made, and what this
//! build writes and reads must be the same for as long as it speaks version 1.
//!
//! Each file is one frame, or what one side of a handshake sends, in hexadecimal. `TOLLGATE_WRITE_GOLDEN=1` writes files that are missing;
//! none is ever written again.

mod support;

use std::borrow::Cow;
use std::fmt::Debug;
use std::path::PathBuf;
use support::{Party, local, opener, secret};
use tollgate_cluster::wire::{
    AskStatus, Await, AwaitAct, Called, Drain, DrainBegun, Forward, FrameReader, FrameWriter, GiveBack, GivenBack,
    Handshake, Holder, Keyspace, KeyspaceDone, KeyspaceOutcome, KeyspaceStep, Kind, Lend, Lent, LentOutcome, Libraries,
    LibrariesAnswer, LibraryChange, LibraryVersion, Listeners, ListenersOf, Listening, Message, NodeStatus,
    NotAnswered, Noted, Outcome, Part, Piece, Pong, Probe, Publish, Published, Replies, Run, ScanPlace, Scripts,
    ScriptsAnswer, ScriptsAsk, ScriptsTold, SlotMessages, Trouble, Wanted, Watch, WatchAct, Why, Within,
    append_slot_message, read_message, write_message,
};
use tollgate_cluster::{Epoch, Incarnation, slots};

const VERSION: u16 = 1;

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n");
    lines.collect()
}

/// The golden bytes of that name; `made` if there are none yet and they are to be written.
fn golden(name: &str, made: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/peer_v1/{name}.hex"));
    if !path.exists() && std::env::var_os("TOLLGATE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, hex(made)).expect("a directory");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("text"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
        .collect()
}

/// That a message is written as it was, and what was written then is read as the message.
fn holds<'a, M: Message<'a> + PartialEq + Debug>(name: &str, id: u64, message: &M, golden_bytes: &'a mut Vec<u8>) {
    let mut made = Vec::new();
    write_message(&mut FrameWriter::new(1 << 20), VERSION, id, message, &mut made).expect("whole");
    *golden_bytes = golden(name, &made);
    assert_eq!(hex(&made), hex(golden_bytes), "{name}");
    let mut reader = FrameReader::new(1 << 20);
    reader.input().extend_from_slice(golden_bytes);
    let frame = reader.next_frame().expect("whole").expect("whole");
    assert_eq!((frame.kind, frame.id), (M::KIND as u8, id));
    let start = golden_bytes.len() - frame.body.len();
    assert_eq!(
        &read_message::<M>(VERSION, &golden_bytes[start..]).expect("whole"),
        message,
        "{name}"
    );
}

#[test]
fn forwards() {
    let commands = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*6\r\n$8\r\nRL.CHECK\r\n$1\r\nk\r\n$5\r\nLIMIT\r\n$1\r\n5\r\n$3\r\nPER\r\n$2\r\n1m\r\n";
    let runs = [
        Run {
            commands: 1,
            db: 0,
            resp: 2,
        },
        Run {
            commands: 1,
            db: 15,
            resp: 3,
        },
    ];
    let forward = Forward {
        lane: 300,
        commands,
        runs: Cow::Borrowed(&runs),
        stand_in_for: None,
    };
    holds("forward", 1, &forward, &mut Vec::new());
    let forward = Forward {
        stand_in_for: Some("node-1"),
        ..forward
    };
    holds("forward_stand_in", u64::MAX, &forward, &mut Vec::new());
}

#[test]
fn replies() {
    let replies = Replies {
        bytes: b"$-1\r\n*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:12000\r\n$5\r\nlocal\r\n",
        ends: Cow::Borrowed(&[5, 45, 45, 45]),
        not_answered: vec![
            NotAnswered {
                index: 2,
                why: Why::Moved {
                    slot: 16_383,
                    holder: Holder {
                        epoch: Epoch(1 << 40),
                        name: "node-2",
                    },
                },
            },
            NotAnswered {
                index: 3,
                why: Why::NotHere { slot: 0 },
            },
        ],
    };
    holds("replies", 1, &replies, &mut Vec::new());
    let none = Replies {
        bytes: b"",
        ends: Cow::Borrowed(&[]),
        not_answered: Vec::new(),
    };
    holds("replies_none", 2, &none, &mut Vec::new());
}

#[test]
fn loans() {
    let wanted = [
        Wanted {
            within: Within::Db(3),
            key: b"k",
        },
        Wanted {
            within: Within::Rule("free"),
            key: b"\0\xff",
        },
    ];
    let lend = Lend {
        run: 1 << 48 | 7,
        waits: true,
        keys: wanted.to_vec(),
    };
    holds("lend", 3, &lend, &mut Vec::new());
    let pieces = vec![
        Piece { key: 0, bytes: b"" },
        Piece {
            key: 300,
            bytes: b"\0\x01entries",
        },
    ];
    let outcomes = [
        LentOutcome::Lent {
            clocks_us: vec![1_700_000_000_000_000, 0],
            pieces: pieces.clone(),
        },
        LentOutcome::Busy,
        LentOutcome::NotHere { slot: 16_383 },
        LentOutcome::Refused { why: "ERR no" },
    ];
    for (number, outcome) in (0..).zip(outcomes) {
        holds(&format!("lent_{number}"), 4, &Lent { outcome }, &mut Vec::new());
    }
    for (name, part) in [("more", Part::More), ("last", Part::Last), ("void", Part::Void)] {
        let back = GiveBack {
            run: 7,
            pieces: pieces.clone(),
            part,
        };
        holds(&format!("give_back_{name}"), 5, &back, &mut Vec::new());
    }
    holds("given_back", 6, &GivenBack { is_kept: true }, &mut Vec::new());
}

#[test]
fn interest_in_keys() {
    let key = b"k".as_slice();
    for (name, act) in [
        ("begin", WatchAct::Begin { db: 15, key }),
        ("ask", WatchAct::Ask),
        ("end", WatchAct::End),
    ] {
        holds(&format!("watch_{name}"), 1, &Watch { watch: 300, act }, &mut Vec::new());
    }
    for (name, act) in [
        ("begin", AwaitAct::Begin { db: 0, key }),
        ("call_next", AwaitAct::CallNext),
        ("end", AwaitAct::End),
    ] {
        holds(
            &format!("await_{name}"),
            2,
            &Await { waiter: 300, act },
            &mut Vec::new(),
        );
    }
    for (name, outcome) in [
        ("yes", Outcome::Yes),
        ("no", Outcome::No),
        ("refused", Outcome::Refused { why: "ERR no" }),
    ] {
        holds(&format!("noted_{name}"), 3, &Noted { outcome }, &mut Vec::new());
    }
    holds("called", 0, &Called { waiter: u64::MAX }, &mut Vec::new());
}

#[test]
fn probes() {
    // The field of version 2 is not written in version 1, and so not read.
    let mut made = Vec::new();
    write_message(
        &mut FrameWriter::new(1 << 20),
        VERSION,
        9,
        &Probe::new(0x0123_4567_89ab_cdef),
        &mut made,
    )
    .unwrap();
    assert_eq!(hex(&made), hex(&golden("probe", &made)));
    let read = read_message::<Probe>(VERSION, &made[13..]).unwrap();
    assert_eq!(read.view, 0x0123_4567_89ab_cdef);
    holds("pong", 9, &Pong { view: u64::MAX }, &mut Vec::new());
}

/// One of each message between slot machines.
fn slot_messages() -> Vec<(&'static str, slots::Message)> {
    use slots::{Batch, Claim, Debit, Handover, Message, Part, Run, Taken};
    let id = |name: &str| Incarnation {
        name: name.into(),
        generation: 1_800_000_000_000,
    };
    let run = |first, last, epoch| Run {
        first,
        last,
        epoch: Epoch(epoch),
    };
    let taken = vec![Taken {
        origin: id("node-3"),
        number: 7,
    }];
    let debits = vec![Debit {
        bucket: (&b"\0\x05user1"[..]).into(),
        parameters: (&b"\x0ctoken_bucket\x01\x05\xff\x05"[..]).into(),
        tokens: 3,
    }];
    let batch = |part, taken| Batch {
        slot: 16_383,
        epoch: Epoch(300),
        stream: 70_000,
        number: 2,
        clock_us: 1_800_000_000_000_000,
        part,
        entries: (&b"\0\x01entries"[..]).into(),
        taken,
    };
    vec![
        (
            "slot_holdings",
            Message::Holdings {
                runs: vec![run(0, 99, 1), run(300, 16_383, 1 << 40)],
                all: true,
            },
        ),
        ("slot_tell", Message::Tell),
        (
            "slot_ask",
            Message::Ask {
                ranges: vec![(1, 2), (300, 16_383)],
                number: 9,
            },
        ),
        (
            "slot_known",
            Message::Known {
                claims: vec![
                    Claim {
                        first: 1,
                        last: 2,
                        epoch: Epoch(4),
                        holder: Some(id("node-1")),
                    },
                    Claim {
                        first: 3,
                        last: 3,
                        epoch: Epoch(5),
                        holder: None,
                    },
                ],
                answer: Some(9),
            },
        ),
        ("slot_digest", Message::Digest { sum: u64::MAX }),
        ("slot_ping", Message::Ping { sent_us: 251 }),
        ("slot_pong", Message::Pong { sent_us: 251 }),
        (
            "slot_batch_copy",
            Message::Batch(batch(Part::Copy { last: true }, taken.clone())),
        ),
        ("slot_batch_changes", Message::Batch(batch(Part::Changes, Vec::new()))),
        (
            "slot_batch_resume",
            Message::Batch(batch(Part::Resume { epoch: Epoch(299) }, Vec::new())),
        ),
        (
            "slot_ack",
            Message::Ack {
                slot: 5,
                stream: 6,
                number: 7,
            },
        ),
        ("slot_behind", Message::Behind { slot: 5, stream: 6 }),
        (
            "slot_unfollow",
            Message::Unfollow {
                slot: 5,
                epoch: Epoch(6),
            },
        ),
        (
            "slot_handover",
            Message::Handover(Handover {
                slot: 5,
                epoch: Epoch(301),
                stream: 70_000,
                number: 3,
                clock_us: 1_800_000_000_000_000,
                taken,
                journal: debits.clone(),
            }),
        ),
        (
            "slot_not_taken",
            Message::NotTaken {
                slot: 5,
                epoch: Epoch(301),
            },
        ),
        (
            "slot_debits",
            Message::Debits {
                slot: 5,
                number: 8,
                debits,
            },
        ),
        ("slot_debited", Message::Debited { slot: 5, number: 8 }),
        ("slot_confirm", Message::Confirm { number: 2 }),
        (
            "slot_confirmed",
            Message::Confirmed {
                number: 2,
                member: Some(true),
            },
        ),
    ]
}

#[test]
fn messages_between_slot_machines() {
    let (mut all, mut golden_all) = (Vec::new(), Vec::new());
    for (name, message) in slot_messages() {
        let mut made = Vec::new();
        append_slot_message(&message, &mut made).expect("it has a form");
        let bytes = golden(name, &made);
        assert_eq!(hex(&made), hex(&bytes), "{name}");
        golden_all.extend_from_slice(&bytes);
        all.push(message);
    }
    // A body has any number of them.
    let read: Vec<_> = SlotMessages::of(&golden_all).map(|read| read.expect("whole")).collect();
    assert_eq!(read, all);
}

#[test]
fn what_operators_ask() {
    holds("ask_status", 3, &AskStatus {}, &mut Vec::new());
    let status = NodeStatus {
        version: "0.1.0".into(),
        view: 0x0123_4567_89ab_cdef,
        target: 5461,
        held: 5462,
        to_move: 1,
        moving: 2,
        followed: 5460,
        replicas: 5463,
        replicas_in_step: 5459,
        copies_waiting: 4,
        unknown: 5,
        epoch_max: 1 << 40,
        lag_us: 21_000,
        journal_buckets: 6,
        journal_tokens: 70_000,
        journal_unacknowledged: 8,
        journal_dropped: 9,
        drained: true,
        circuits: vec![Trouble {
            peer: "node-2".into(),
            state: "open".into(),
        }],
    };
    holds("status", 3, &status, &mut Vec::new());
    holds("drain", 4, &Drain { undo: true }, &mut Vec::new());
    let refused = "no".into();
    holds("drain_begun", 4, &DrainBegun { refused }, &mut Vec::new());
}

#[test]
fn keyspace_steps() {
    let slots: &[u8] = &[1, 0, 0b1000_0001, 0xff];
    let from = ScanPlace {
        slot: 16_383,
        position: 0x7fff_ffff,
        mark: 255,
    };
    for (name, step) in [
        ("keyspace_count", KeyspaceStep::Count { db: 0, slots }),
        (
            "keyspace_scan",
            KeyspaceStep::Scan {
                db: 15,
                slots,
                from,
                count: 1_000,
                pattern: Some(b"user:*"),
                of_type: Some("string"),
            },
        ),
        ("keyspace_random", KeyspaceStep::Random { db: 1 }),
        ("keyspace_flush", KeyspaceStep::Flush { db: Some(3) }),
        ("keyspace_flush_all", KeyspaceStep::Flush { db: None }),
        ("keyspace_free", KeyspaceStep::Free),
    ] {
        holds(name, 1, &Keyspace { step }, &mut Vec::new());
    }
    for (name, done) in [
        (
            "keyspace_counted",
            KeyspaceOutcome::Counted {
                keys: 70_000,
                missed: slots,
            },
        ),
        (
            "keyspace_scanned",
            KeyspaceOutcome::Scanned {
                keys: vec![b"user:1", b""],
                looked_at: 300,
                next: Some(from),
                missed: &[0, 0],
            },
        ),
        ("keyspace_picked", KeyspaceOutcome::Random { key: Some(b"k") }),
        ("keyspace_flushed", KeyspaceOutcome::Flushed { slots }),
        ("keyspace_freed", KeyspaceOutcome::Freed),
        ("keyspace_busy", KeyspaceOutcome::Busy),
    ] {
        holds(name, 1, &KeyspaceDone { done }, &mut Vec::new());
    }
}

#[test]
fn published_messages_and_listeners() {
    let publish = Publish {
        channel: b"news",
        message: b"\r\n",
        sharded: false,
    };
    holds("publish", 1, &publish, &mut Vec::new());
    let publish = Publish {
        sharded: true,
        ..publish
    };
    holds("publish_sharded", 0, &publish, &mut Vec::new());
    holds("published", 1, &Published { receivers: 300 }, &mut Vec::new());
    for (name, of) in [
        (
            "listeners_channels",
            ListenersOf::Channels {
                pattern: Some(b"n*"),
                sharded: false,
            },
        ),
        (
            "listeners_counts",
            ListenersOf::Counts {
                channels: vec![b"a", b""],
                sharded: true,
            },
        ),
        ("listeners_patterns", ListenersOf::Patterns),
    ] {
        holds(name, 1, &Listeners { of }, &mut Vec::new());
    }
    let listening = Listening {
        names: vec![b"news"],
        counts: vec![0, 70_000],
    };
    holds("listening", 1, &listening, &mut Vec::new());
}

#[test]
fn scripts() {
    let sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    for (name, what) in [
        ("scripts_load", ScriptsAsk::Load { text: b"return 1" }),
        ("scripts_find", ScriptsAsk::Find { sha1 }),
        (
            "scripts_exist",
            ScriptsAsk::Exist {
                sha1s: vec![sha1, sha1],
            },
        ),
        ("scripts_flush", ScriptsAsk::Flush),
    ] {
        holds(name, 1, &Scripts { what }, &mut Vec::new());
    }
    for (name, answer) in [
        ("scripts_done", ScriptsTold::Done),
        (
            "scripts_found",
            ScriptsTold::Found {
                text: Some(b"return 1"),
            },
        ),
        (
            "scripts_known",
            ScriptsTold::Known {
                known: vec![true, false],
            },
        ),
        ("scripts_not_done", ScriptsTold::NotDone),
    ] {
        holds(name, 1, &ScriptsAnswer { answer }, &mut Vec::new());
    }
}

#[test]
fn libraries() {
    let version = LibraryVersion {
        counter: 300,
        node: "node-1",
    };
    let changes = vec![
        LibraryChange {
            name: "mylib",
            version,
            text: Some(b"#!lua name=mylib\n"),
        },
        LibraryChange {
            name: "gone",
            version: LibraryVersion { counter: 1, node: "" },
            text: None,
        },
    ];
    let libraries = Libraries {
        flushed: version,
        changes: changes.clone(),
        known: Some(vec![("mylib", version)]),
    };
    holds("libraries", 1, &libraries, &mut Vec::new());
    let told = Libraries {
        known: None,
        ..libraries
    };
    holds("libraries_told", 1, &told, &mut Vec::new());
    let answer = LibrariesAnswer {
        flushed: version,
        changes,
        more: true,
    };
    holds("libraries_answer", 1, &answer, &mut Vec::new());
}

#[test]
fn frames_without_a_message_of_their_own() {
    let mut made = Vec::new();
    let mut writer = FrameWriter::new(1 << 20);
    writer.write_body(&mut made, Kind::NotUnderstood as u8, 7, b"").unwrap();
    writer.write_body(&mut made, Kind::Slot as u8, 0, b"opaque").unwrap();
    assert_eq!(hex(&made), hex(&golden("other_kinds", &made)));
}

#[test]
fn handshakes_and_sealed_frames() {
    for with in ["", "secret"] {
        let name = |what: &str| match with {
            "" => what.to_owned(),
            _ => format!("{what}_secret"),
        };
        let (one, mut to_other) = opener(local("a"), with, ("b", 1));
        let (mut one, mut other) = (
            Party::new(one),
            Party::new(Handshake::accept(local("b"), secret(with), [2; 32])),
        );
        let (mut opener_sent, mut accepter_sent) = (Vec::new(), Vec::new());
        while !to_other.is_empty() {
            opener_sent.extend_from_slice(&to_other);
            let to_one = other.feed(&to_other, usize::MAX);
            accepter_sent.extend_from_slice(&to_one);
            to_other = one.feed(&to_one, usize::MAX);
        }
        let (one, other) = (one.end.expect("over"), other.end.expect("over"));
        for (mut end, mut sent, what) in [
            (one.established(), opener_sent, "opener"),
            (other.established(), accepter_sent, "accepter"),
        ] {
            end.writer.write_body(&mut sent, Kind::Slot as u8, 1, b"first").unwrap();
            end.writer
                .write_body(&mut sent, Kind::Slot as u8, 2, b"second")
                .unwrap();
            assert_eq!(hex(&sent), hex(&golden(&name(what), &sent)), "{what}");
        }
    }
}

#[test]
fn what_a_node_sent_when_version_1_was_made_is_still_understood() {
    for with in ["", "secret"] {
        let read = |what: &str| match with {
            "" => golden(what, b""),
            _ => golden(&format!("{what}_secret"), b""),
        };
        // Their bytes against one another: with the nonces of then, this build's other side agrees with them.
        let mut accepter = Party::new(Handshake::accept(local("b"), secret(with), [2; 32]));
        let sent = accepter.feed(&read("opener"), 11);
        let mut frames = accepter.end.expect("over").established().reader;
        assert_eq!(frames.next_frame().unwrap().unwrap().body, b"first");
        assert_eq!(frames.next_frame().unwrap().unwrap().body, b"second");
        assert!(read("accepter").starts_with(&sent));

        let (one, _) = opener(local("a"), with, ("b", 1));
        let mut one = Party::new(one);
        one.feed(&read("accepter"), 11);
        let mut frames = one.end.expect("over").established().reader;
        assert_eq!(frames.next_frame().unwrap().unwrap().body, b"first");
    }
}
