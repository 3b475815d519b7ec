//! Local shares: what each of N nodes may admit of a limit while it reaches neither holder nor heir.
//!
//! The shares of all nodes sum exactly to the limit, so that together they admit no more than one bucket does. A node that sees fewer
//! members than there are takes more than its share: that is the price of a partition.

/// The part of `total` of the node with this rank (from 0) among `nodes`: remainders go to the first ones.
///
/// # Panics
/// In debug builds, if the rank is not below the number of nodes.
pub fn share(total: u64, nodes: u32, rank: u32) -> u64 {
    debug_assert!(rank < nodes, "ranks are from 0 to N - 1");
    let nodes = u64::from(nodes.max(1));
    total / nodes + u64::from(u64::from(rank) < total % nodes)
}

/// The bucket of a local share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalShare {
    /// Tokens that it refills in a window. 0: none.
    pub limit: u64,
    /// Tokens that it holds. 0: it admits nothing.
    pub burst: u64,
    /// Tokens that it starts with.
    pub start: u64,
}

/// The local bucket of the node with this rank among `nodes`, for a limit and burst. `remaining`: what this node last saw to remain of
/// the bucket, if it has ever seen that.
pub fn local_share(limit: u64, burst: u64, remaining: Option<u64>, nodes: u32, rank: u32) -> LocalShare {
    let full = share(burst, nodes, rank);
    let start = remaining.map_or(full, |remaining| share(remaining, nodes, rank).min(full));
    LocalShare {
        limit: share(limit, nodes, rank),
        burst: full,
        start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_exactly_and_differ_by_one_at_most_in_the_order_of_ranks() {
        for total in [0, 1, 2, 6, 7, 100, 101, 1_000_000_000_000, u64::MAX] {
            for nodes in 1..=101 {
                let shares: Vec<u64> = (0..nodes).map(|rank| share(total, nodes, rank)).collect();
                assert_eq!(
                    shares.iter().map(|share| u128::from(*share)).sum::<u128>(),
                    u128::from(total)
                );
                assert!(shares.is_sorted_by(|a, b| a >= b) && shares[0] - shares[shares.len() - 1] <= 1);
            }
        }
    }

    #[test]
    fn a_local_bucket_starts_with_its_part_of_what_remained() {
        let of = |remaining, rank| local_share(100, 20, remaining, 3, rank);
        assert_eq!(
            of(None, 0),
            LocalShare {
                limit: 34,
                burst: 7,
                start: 7
            }
        );
        assert_eq!(
            of(Some(4), 0),
            LocalShare {
                limit: 34,
                burst: 7,
                start: 2
            }
        );
        assert_eq!(
            of(Some(4), 2),
            LocalShare {
                limit: 33,
                burst: 6,
                start: 1
            }
        );
        assert_eq!(of(Some(0), 2).start, 0);
        let all: u64 = (0..3).map(|rank| of(Some(20), rank).start).sum();
        assert_eq!(all, 20);
    }
}
