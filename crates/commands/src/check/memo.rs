//! The last check that was parsed. The checks of one service mostly differ in nothing but their key, so the rest is compared
//! with that of the check before, which costs a fifth of parsing it.

use super::Order;
use crate::table::Spec;
use tollgate_protocol::{ArgRange, Request};

/// The first argument that is part of the memo; before it are the name and the key.
const FIRST: usize = 2;
/// Arguments, and their bytes, up to which a check is remembered.
const ARGS_MAX: usize = 16;
const BYTES_MAX: usize = 256;

/// What the last check asked for, apart from its key. It refers to the shard's rules and policies as they are.
#[derive(Debug, Default)]
pub(crate) struct OrderMemo {
    /// The command.
    spec: Option<&'static Spec>,
    bytes: Vec<u8>,
    ranges: Vec<ArgRange>,
    order: Option<Order>,
}

impl OrderMemo {
    /// What this check asks for, if it is the same as the last one.
    #[inline]
    pub(crate) fn recall(&self, spec: &'static Spec, request: Request<'_>) -> Option<Order> {
        if request.len() != FIRST + self.ranges.len() || !self.spec.is_some_and(|last| std::ptr::eq(last, spec)) {
            return None;
        }
        // There is an argument FIRST: what is remembered has at least one.
        let (bytes, ranges) = request.tail(FIRST);
        let same = bytes == self.bytes && ranges.eq(self.ranges.iter().copied());
        self.order.filter(|_| same)
    }

    /// Remembers a check.
    pub(crate) fn learn(&mut self, spec: &'static Spec, request: Request<'_>, order: Order) {
        self.spec = None;
        if !(FIRST + 1..=FIRST + ARGS_MAX).contains(&request.len()) {
            return;
        }
        let (bytes, ranges) = request.tail(FIRST);
        if bytes.len() > BYTES_MAX {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.ranges.clear();
        self.ranges.extend(ranges);
        self.order = Some(order);
        self.spec = Some(spec);
    }
}

#[cfg(test)]
mod tests {
    use super::OrderMemo;
    use crate::test_shard::TestShards;
    use proptest::prelude::*;

    proptest! {
        // Few cases of many checks: the shards of a case take longest.
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Whatever came before, a check is answered as by a shard that remembers none.
        #[test]
        fn a_check_means_the_same_with_and_without_a_memory(
            lines in prop::collection::vec(
                "(RL\\.CHECK KEY( (LIMIT|PER|COST|BURST) (1|10|100|1s|0)){0,4}( PEEK)?|CL\\.THROTTLE KEY( (0|1|10|100)){3,4})",
                1..300,
            )
        ) {
            let (mut remembering, mut forgetting) = (TestShards::new(1), TestShards::new(1));
            for (number, line) in lines.iter().enumerate() {
                let line = line.replace("KEY", &format!("key:{number}"));
                forgetting.shards[0].last_order = OrderMemo::default();
                prop_assert_eq!(remembering.run(&line), forgetting.run(&line), "{}", line);
            }
        }
    }
}
