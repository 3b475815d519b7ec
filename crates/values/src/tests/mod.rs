//! Each type against a simple model, with chunks so small that they split and join all the time.

mod carry;
mod hash;
mod list;
mod scan;
mod set;
mod sorted_set;
mod string;

use std::sync::OnceLock;

use proptest::prelude::*;

use crate::HashSeed;

/// Random numbers that are the same each time (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
}

fn seed() -> HashSeed {
    static SEED: OnceLock<HashSeed> = OnceLock::new();
    *SEED.get_or_init(|| HashSeed::new(7))
}

/// Fields and members: few enough to meet again, some of them long, some integers.
fn names() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0..1500u32).prop_map(|number| format!("member {number}").into_bytes()),
        2 => (-50..50i64).prop_map(|number| number.to_string().into_bytes()),
        1 => (0..30u8, 20..80usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::collection::vec(any::<u8>(), 20..100),
    ]
}

#[test]
fn values_can_be_sent_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<crate::Value>();
    assert_eq!(size_of::<crate::Value>(), 16);
}
