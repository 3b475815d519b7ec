//! What is refused, debts, journals, and decisions in somebody's place.

use super::*;
use crate::test_request::with_line;
use crate::test_shard::TestShards;
use crate::{CommandTable, LastCommand, RunId, WhenFull};
use proptest::prelude::*;
use tollgate_store::{Role, slot_of};
use tollgate_values::varint;

const POLICIES: [&str; 5] = [
    "token_bucket",
    "leaky_bucket",
    "fixed_window",
    "sliding_window",
    "sliding_log",
];

fn bucket(space: &[u8], key: &str) -> Vec<u8> {
    let mut bucket = space.to_vec();
    varint::put_bytes(&mut bucket, key.as_bytes());
    bucket
}

fn parameters(policy: &str, numbers: [u64; 4]) -> Vec<u8> {
    let mut parameters = Vec::new();
    varint::put_bytes(&mut parameters, policy.as_bytes());
    numbers
        .into_iter()
        .for_each(|number| varint::put(&mut parameters, number));
    parameters
}

fn debit(shards: &mut TestShards, key: &str, policy: &str, tokens: u64) -> Result<(), Malformed> {
    let (bucket, parameters) = (bucket(&[0], key), parameters(policy, [1, 10, 10_000_000, 10]));
    let now_us = shards.now_us;
    shards.shards[0].debit(slot_of(key.as_bytes()), &bucket, &parameters, tokens, now_us)
}

/// Allowed, remaining and retry_after_ms of a check.
fn verdict(shards: &mut TestShards, line: &str) -> [i64; 3] {
    let reply = shards.run(line);
    let number = |at: usize| {
        reply
            .split("\r\n")
            .nth(at)
            .and_then(|field| field[1..].parse().ok())
            .unwrap()
    };
    [number(1), number(3), number(4)]
}

#[test]
fn a_debit_goes_down_to_minus_the_burst() {
    for policy in POLICIES {
        let mut shards = TestShards::new(1);
        let burst = if policy == "leaky_bucket" { " BURST 10" } else { "" };
        let check = format!("RL.CHECK k LIMIT 10 PER 10s{burst} POLICY {policy}");
        // There is no such bucket: it is made, in debt.
        debit(&mut shards, "k", policy, 15).unwrap();
        let [allowed, remaining, retry_after_ms] = verdict(&mut shards, &check);
        assert_eq!((allowed, remaining), (0, 0), "{policy}");
        assert!(retry_after_ms > 0, "{policy}");
        if policy == "token_bucket" {
            assert_eq!(retry_after_ms, 6_000);
            shards.advance_ms(5_999);
            assert_eq!(verdict(&mut shards, &check)[0], 0);
            shards.advance_ms(1);
            assert_eq!(verdict(&mut shards, &check)[0], 1);
            // However much is owed, it is out of debt after a window.
            debit(&mut shards, "k", policy, u64::MAX).unwrap();
            assert_eq!(verdict(&mut shards, &check), [0, 0, 11_000]);
        }
        shards.advance_ms(40_000);
        assert_eq!(verdict(&mut shards, &check)[..2], [1, 9], "{policy}");
        debit(&mut shards, "k", policy, 4).unwrap();
        let peek = format!("{check} PEEK");
        assert_eq!(verdict(&mut shards, &peek)[..2], [1, 5], "{policy}");
        assert_eq!(shards.shards[0].stats().carry.debits_lost, 0);
    }
}

#[test]
fn a_debt_that_nothing_can_owe_is_counted() {
    let mut shards = TestShards::new(1);
    debit(&mut shards, "k", "no_such_policy", 3).unwrap();
    shards.run("SET v value");
    debit(&mut shards, "v", "token_bucket", 3).unwrap();
    assert_eq!(shards.run("GET v"), "$5\r\nvalue\r\n");
    let slot = slot_of(b"k");
    let now_us = shards.now_us;
    let shard = &mut shards.shards[0];
    let limit = parameters("token_bucket", [1, 10, 10_000_000, 10]);
    let rule = |id: &str| {
        let mut space = vec![16];
        varint::put_bytes(&mut space, id.as_bytes());
        bucket(&space, "k")
    };
    shard.debit(slot, &rule("no-such-rule"), &limit, 3, now_us).unwrap();
    assert_eq!(shard.stats().carry.debits_lost, 3);
    shard
        .debit(
            slot,
            &rule("free"),
            &parameters("token_bucket", [1, 50, 60_000_000, 50]),
            3,
            now_us,
        )
        .unwrap();
    assert_eq!(shard.stats().carry.debits, 1);
    for (bytes, names) in [
        (bucket(&[0], "other"), limit.clone()),
        (vec![99], limit.clone()),
        (bucket(&[0], "k"), parameters("token_bucket", [1, 0, 10, 10])),
        ([bucket(&[0], "k"), vec![0]].concat(), limit.clone()),
        (Vec::new(), Vec::new()),
    ] {
        assert_eq!(shard.debit(slot, &bytes, &names, 1, now_us), Err(Malformed));
    }
    assert_eq!(verdict(&mut shards, "RL.CHECK k RULE free PEEK")[1], 47);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever was admitted elsewhere, debits never give: what is left is what a bucket has left from which all was taken, or the
    /// least there can be.
    #[test]
    fn debits_and_checks_are_exact(steps in prop::collection::vec((0..3u32, 1..30u64, 0..3_000u64), 1..60)) {
        const BURST: i128 = 10;
        const WINDOW_US: i128 = 10_000_000;
        let mut shards = TestShards::new(1);
        // Tokens times the window, so that all is whole.
        let mut level = BURST * WINDOW_US;
        for (what, amount, ms) in steps {
            shards.advance_ms(ms);
            level = (level + i128::from(ms) * 1_000 * 10).min(BURST * WINDOW_US);
            if what == 0 {
                debit(&mut shards, "k", "token_bucket", amount).unwrap();
                level = (level - i128::from(amount) * WINDOW_US).max(-BURST * WINDOW_US);
            } else {
                let cost = amount % 5 + 1;
                let [allowed, remaining, _] = verdict(&mut shards, &format!("RL.CHECK k LIMIT 10 PER 10s COST {cost}"));
                let cost = i128::from(cost) * WINDOW_US;
                prop_assert_eq!(allowed == 1, cost <= level);
                level -= if allowed == 1 { cost } else { 0 };
                prop_assert_eq!(i128::from(remaining), (level / WINDOW_US).max(0));
            }
        }
    }
}

#[test]
fn a_journal_has_what_was_admitted() {
    let mut shards = TestShards::new(1);
    let check = "RL.CHECK {t}k LIMIT 10 PER 10s";
    shards.run(check);
    let slot = slot_of(b"t");
    shards.shards[0].set_journal(slot, true);
    for _ in 0..3 {
        shards.run(check);
    }
    shards.run(&format!("{check} PEEK"));
    shards.run(&format!("{check} COST 11"));
    shards.run("RL.CHECK other LIMIT 10 PER 10s");
    shards.run("RL.CHECK {t}log LIMIT 10 PER 10s POLICY sliding_log COST 2");
    shards.run("RL.CHECK {t}rule RULE free COST 5");
    shards.run("RL.CHECK {t}reset LIMIT 10 PER 10s");
    shards.run("RL.RESET {t}reset");
    shards.run("RL.REFUND {t}k 1");
    assert_eq!(shards.shards[0].journalled_slots(), [slot]);
    let mut owed = Vec::new();
    while owed.len() < 3 {
        let some = shards.shards[0].take_journal(slot, 2);
        assert!(some.len() <= 2 && !some.is_empty());
        owed.extend(some);
    }
    assert_eq!(shards.shards[0].take_journal(slot, 9), []);
    owed.sort_by_key(|owed| owed.tokens);
    assert_eq!(owed.iter().map(|owed| owed.tokens).collect::<Vec<_>>(), [2, 2, 5]);
    assert!(owed.iter().any(|owed| owed.bucket == bucket(&[0], "{t}log")));
    // Where nothing of it is known, it is owed.
    let mut winner = TestShards::new(1);
    let now_us = winner.now_us;
    for owed in &owed {
        let shard = &mut winner.shards[0];
        shard
            .debit(slot, &owed.bucket, &owed.parameters, owed.tokens, now_us)
            .unwrap();
    }
    assert_eq!(verdict(&mut winner, "RL.CHECK {t}k LIMIT 10 PER 10s PEEK")[1], 8);
    assert_eq!(verdict(&mut winner, "RL.CHECK {t}rule RULE free PEEK")[1], 45);
    shards.run(check);
    shards.run("FLUSHALL");
    assert_eq!(shards.shards[0].take_journal(slot, 9), []);
    shards.run(check);
    shards.shards[0].set_journal(slot, false);
    assert_eq!(shards.shards[0].take_journal(slot, 9), []);
}

fn check_as(shards: &mut TestShards, line: &str, standing: As) -> (String, Option<Owed>) {
    let env = shards.env();
    let mut out = Vec::new();
    let table = CommandTable::default();
    let owed = with_line(line, |request| {
        let (spec, _) = table.resolve(request, &mut LastCommand::default()).unwrap();
        shards.shards[0]
            .check_as(&env, spec, request, standing, &mut out)
            .unwrap()
    });
    (String::from_utf8(out).unwrap(), owed)
}

#[test]
fn an_heir_decides_on_the_replica() {
    let mut shards = TestShards::new(1);
    let check = "RL.CHECK k LIMIT 3 PER 10s";
    shards.run(check);
    shards.shards[0].set_slot_held(slot_of(b"k"), false);
    let (reply, owed) = check_as(&mut shards, check, As::Heir);
    assert!(
        reply.starts_with("*6\r\n:1\r\n:3\r\n:1\r\n") && reply.ends_with("$4\r\nheir\r\n"),
        "{reply}"
    );
    let owed = owed.unwrap();
    assert_eq!((owed.tokens, owed.bucket), (1, bucket(&[0], "k")));
    assert_eq!(owed.parameters, parameters("token_bucket", [1, 3, 10_000_000, 3]));
    check_as(&mut shards, check, As::Heir);
    let (reply, owed) = check_as(&mut shards, check, As::Heir);
    assert!(reply.starts_with("*6\r\n:0\r\n") && owed.is_none(), "{reply}");
    assert!(check_as(&mut shards, "CL.THROTTLE c 5 10 60", As::Heir).1.is_some());
    assert!(check_as(&mut shards, &format!("{check} PEEK"), As::Heir).1.is_none());
}

#[test]
fn local_shares_sum_to_the_limit_and_are_no_keys() {
    for (limit, burst) in [(10, ""), (7, " BURST 5"), (2, ""), (100, " BURST 3")] {
        let admitted: usize = (0..3)
            .map(|rank| {
                let mut shards = TestShards::new(1);
                let share = Share {
                    nodes: 3,
                    rank,
                    remaining: None,
                };
                let check = format!("RL.CHECK k LIMIT {limit} PER 1d{burst}");
                let admitted = (0..20)
                    .filter(|_| check_as(&mut shards, &check, As::Local(share)).1.is_some())
                    .count();
                let (reply, _) = check_as(&mut shards, &check, As::Local(share));
                assert!(reply.ends_with("$5\r\nlocal\r\n"), "{reply}");
                for command in ["DBSIZE", "EXISTS k"] {
                    assert_eq!(shards.run(command), ":0\r\n");
                }
                assert_eq!(shards.run("KEYS *"), "*0\r\n");
                admitted
            })
            .sum();
        let most = burst
            .strip_prefix(" BURST ")
            .map_or(limit, |burst| burst.parse().unwrap());
        assert_eq!(admitted, most, "LIMIT {limit}{burst}");
    }
}

#[test]
fn a_share_begins_with_what_was_seen_last() {
    let mut shards = TestShards::new(1);
    let share = |remaining| {
        As::Local(Share {
            nodes: 2,
            rank: 0,
            remaining,
        })
    };
    let check = "RL.CHECK k LIMIT 20 PER 20s";
    let (reply, owed) = check_as(&mut shards, check, share(Some(6)));
    assert!(reply.starts_with("*6\r\n:1\r\n:20\r\n:2\r\n"), "{reply}");
    // What is owed is owed by the bucket, not by the share of it.
    assert_eq!(
        owed.unwrap().parameters,
        parameters("token_bucket", [1, 20, 20_000_000, 20])
    );
    assert!(
        check_as(&mut shards, check, share(Some(0)))
            .0
            .starts_with("*6\r\n:1\r\n:20\r\n:1\r\n")
    );
    for policy in POLICIES {
        let key = format!("RL.CHECK {policy} LIMIT 20 PER 20s POLICY {policy}");
        let (reply, _) = check_as(&mut shards, &key, share(Some(1)));
        assert!(reply.starts_with("*6\r\n:1\r\n:20\r\n:0\r\n"), "{policy}: {reply}");
    }
    // The limit is what was asked for, and the capacity, too; what is left is of the share.
    let (reply, _) = check_as(&mut shards, "CL.THROTTLE t 19 10 60", share(None));
    assert!(reply.starts_with("*5\r\n:0\r\n:20\r\n:9\r\n"), "{reply}");
    shards.shards[0].end_shares();
    assert!(
        check_as(&mut shards, check, share(None))
            .0
            .starts_with("*6\r\n:1\r\n:20\r\n:9\r\n")
    );
}

/// All of a slot, as bytes.
fn copy(shards: &mut TestShards, slot: u16) -> Vec<u8> {
    let mut out = Vec::new();
    shards.shards[0].track_slot(slot);
    assert_eq!(shards.shards[0].copy_slot(slot, 0, 1 << 20, &mut out), None);
    out
}

#[test]
fn what_is_not_known_is_refused_and_another_version_is_empty() {
    let slot = slot_of(b"t");
    let mut holder = TestShards::new(1);
    holder.run("RL.CHECK {t}a LIMIT 10 PER 10s");
    holder.run("RL.CHECK {t}b LIMIT 10 PER 10s POLICY sliding_log");
    holder.run("RL.CHECK {t}c RULE free");
    let bytes = copy(&mut holder, slot);
    let replaced = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    };
    let mut follower = TestShards::new(1);
    let now_us = follower.now_us;
    let shard = &mut follower.shards[0];
    shard.set_slot_held(slot, false);
    shard.set_slot_clock(slot, now_us, now_us);
    shard
        .apply_to_slot(slot, &replaced(b"sliding_log", b"sliding_lag"))
        .unwrap();
    assert_eq!((shard.stats().carry.unknown_policy, shard.slot_entries(slot)), (1, 2));
    shard.apply_to_slot(slot, &replaced(b"\x04free", b"\x04flee")).unwrap();
    assert_eq!((shard.stats().carry.unknown_rule, shard.slot_entries(slot)), (1, 3));
    shard
        .apply_to_slot(slot, &replaced(b"sliding_log\x01", b"sliding_log\x02"))
        .unwrap();
    assert_eq!(shard.stats().carry.other_version, 1);
    shard.set_slot_held(slot, true);
    assert_eq!(
        verdict(&mut follower, "RL.CHECK {t}b LIMIT 10 PER 10s POLICY sliding_log PEEK")[..2],
        [0, 0]
    );
    assert_eq!(
        verdict(&mut follower, "RL.CHECK {t}a LIMIT 10 PER 10s PEEK")[..2],
        [1, 9]
    );
    let slot = slot_of(b"u");
    assert_eq!(
        follower.shards[0].apply_to_slot(slot, b"\x07\x00\x01k"),
        Err(Malformed),
        "no section"
    );
    // Records of keys of another slot, and then one that makes sense.
    holder.run("RL.CHECK u LIMIT 10 PER 10s");
    let both = [bytes.clone(), copy(&mut holder, slot)].concat();
    assert_eq!(follower.shards[0].apply_to_slot(slot, &both), Ok(()));
    let shard = &follower.shards[0];
    assert_eq!((shard.stats().carry.malformed, shard.slot_entries(slot)), (3, 1));
}

#[test]
fn a_full_replica_refuses_and_sheds_nothing_of_its_own() {
    let slot = slot_of(b"t");
    let mut holder = TestShards::new(1);
    for number in 0..300 {
        holder.run(&format!("RL.CHECK {{t}}{number} LIMIT 10 PER 10s"));
    }
    let bytes = copy(&mut holder, slot);
    let mut follower = TestShards::new(1);
    follower.run("RL.CHECK own LIMIT 10 PER 10s");
    let shard = &mut follower.shards[0];
    shard.set_slot_held(slot, false);
    shard.max_memory_bytes = shard.store.bytes() + 5_000;
    shard.when_full = WhenFull::Shed;
    shard.apply_to_slot(slot, &bytes).unwrap();
    let refused = shard.stats().carry.out_of_memory;
    assert!((100..300).contains(&refused), "{refused}");
    assert_eq!(shard.slot_entries(slot) as u64, 300 - refused);
    assert_eq!(shard.store.role(slot), Role::Replica);
    assert_eq!(follower.run("DBSIZE"), ":1\r\n");
}

#[test]
fn what_a_run_holds_is_not_written_before_it_lets_go() {
    let slot = slot_of(b"t");
    let mut holder = TestShards::new(1);
    holder.run("SET {t}a 1");
    holder.run("SET {t}b 1");
    let (mark, run) = (holder.shards[0].track_slot(slot), RunId(7));
    holder.shards[0].hold(b"{t}a", run);
    let mut follower = TestShards::new(1);
    let take = |holder: &mut TestShards, follower: &mut TestShards, mark: u64| {
        let mut out = Vec::new();
        let written = holder.shards[0].slot_changes(slot, mark, 1 << 20, &mut out).unwrap();
        assert!(!written.more);
        follower.shards[0].apply_to_slot(slot, &out).unwrap();
        written.mark
    };
    let mut out = Vec::new();
    assert_eq!(holder.shards[0].copy_slot(slot, 0, 1 << 20, &mut out), None);
    follower.shards[0].apply_to_slot(slot, &out).unwrap();
    let get = |follower: &mut TestShards| [follower.run("GET {t}a"), follower.run("GET {t}b")].concat();
    assert_eq!(get(&mut follower), "$-1\r\n$1\r\n1\r\n");
    let mark = take(&mut holder, &mut follower, mark);
    assert_eq!(get(&mut follower), "$-1\r\n$1\r\n1\r\n");
    // It is lent: as if it were not there, but it is not gone.
    follower.run("SET {t}a before");
    holder.shards[0].hold(b"{t}c", run);
    let loan = holder.shards[0]
        .lend(tollgate_store::Space::Db(0), b"{t}a", run)
        .unwrap();
    let mark = take(&mut holder, &mut follower, mark);
    assert_eq!(follower.run("GET {t}a"), "$6\r\nbefore\r\n");
    holder.shards[0].take_back(loan);
    let mark = take(&mut holder, &mut follower, mark);
    assert_eq!(get(&mut follower), "$1\r\n1\r\n$1\r\n1\r\n");
    assert!(take(&mut holder, &mut follower, mark) >= mark);
}
