use super::*;
use crate::test_shard::TestShards;
use tollgate_values::varint;

const RUN: RunId = RunId(7);
const DB: Space = Space::Db(0);

#[test]
fn a_key_of_a_slot_that_is_on_its_way_is_not_lent() {
    let mut shards = TestShards::new(1);
    let shard = &mut shards.shards[0];
    assert!(shard.may_lend(b"k", RUN));
    shard.set_slot_closed(slot_of(b"k"), true);
    assert!(!shard.may_lend(b"k", RUN));
    assert!(shard.may_lend(b"other", RUN));
    shard.set_slot_closed(slot_of(b"k"), false);
    assert!(shard.may_lend(b"k", RUN));
}

#[test]
fn a_slot_has_holds_until_the_last_of_its_keys_is_let_go_of() {
    let mut shards = TestShards::new(1);
    let shard = &mut shards.shards[0];
    let slot = slot_of(b"k");
    assert!(shard.hold(b"{k}a", RUN) && !shard.hold(b"{k}a", RUN));
    let loans = [Space::Db(0), Space::Db(1)].map(|space| shard.lend(space, b"{k}b", RUN).unwrap());
    assert!(!shard.has_holds_in(slot_of(b"other")));
    shard.release(b"{k}a", RUN);
    for (index, loan) in loans.into_iter().enumerate() {
        assert!(shard.has_holds_in(slot), "{index}");
        shard.take_back(loan);
    }
    assert!(!shard.has_holds_in(slot) && !shard.has_holds());
}

/// Debits a bucket of the database 0.
fn debit(shards: &mut TestShards, key: &str, tokens: u64) {
    let (mut bucket, mut parameters) = (vec![0], Vec::new());
    varint::put_bytes(&mut bucket, key.as_bytes());
    varint::put_bytes(&mut parameters, b"token_bucket");
    [1, 10, 10_000_000, 10]
        .into_iter()
        .for_each(|number| varint::put(&mut parameters, number));
    let now_us = shards.now_us;
    let slot = slot_of(key.as_bytes());
    shards.shards[0]
        .debit(slot, &bucket, &parameters, tokens, now_us)
        .unwrap();
}

#[test]
fn a_debit_for_a_key_that_a_run_has_is_taken_when_the_run_lets_go_of_it() {
    let mut shards = TestShards::new(1);
    let left = |shards: &mut TestShards| {
        let reply = shards.run("RL.CHECK k LIMIT 10 PER 10s PEEK");
        reply.split("\r\n").nth(3).unwrap()[1..].parse::<u64>().unwrap()
    };
    shards.check("k");
    let loan = shards.shards[0].lend(DB, b"k", RUN).unwrap();
    debit(&mut shards, "k", 2);
    debit(&mut shards, "k", 1);
    shards.shards[0].take_back(loan);
    assert_eq!(left(&mut shards), 6);
    shards.shards[0].hold(b"k", RUN);
    debit(&mut shards, "k", 2);
    shards.shards[0].release(b"k", RUN);
    assert_eq!(left(&mut shards), 4);
    assert_eq!(
        shards.shards[0].stats().carry.debits,
        2,
        "two of one bucket are taken together"
    );
}

#[test]
fn a_key_that_is_new_to_a_run_has_the_clock_of_its_slot() {
    let mut shards = TestShards::new(2);
    let key: &[u8] = b"k";
    let owner = shards
        .slots
        .iter()
        .position(|slots| slots.contains(&slot_of(key)))
        .unwrap();
    let guest = 1 - owner;
    let now_us = shards.now_us;
    shards.shards[owner].set_slot_clock(slot_of(key), now_us + 5_000_000, now_us);
    let offsets = shards.shards[owner].store.clock_offsets();
    assert_eq!(offsets, [(slot_of(key), 5_000_000)]);
    let clock_offset_us = offsets[0].1;
    shards.shards[guest].admit_nothing(DB, key, clock_offset_us, RUN);
    let loan = shards.shards[guest].dismiss(DB, key, RUN).unwrap();
    assert_eq!(loan.clock_offset_us, 5_000_000);
}
