//! What a shard counts.

use crate::carry::CarryStats;
use tollgate_script::{Fault, PolicyId};

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted.
    Allowed,
    /// Not admitted.
    Denied,
    /// Answered with an error.
    Error,
}

/// Checks of one policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PolicyStats {
    /// Admitted checks, peeks included.
    pub allowed: u64,
    /// Denied checks.
    pub denied: u64,
    /// Checks that the policy failed to decide, or that had no memory, or met another policy's bucket.
    pub errors: u64,
    /// Of those, failed calls of the policy, by [`FaultKind`].
    pub faults: [u64; FaultKind::ALL.len()],
}

/// How a call of a policy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The file raised an error.
    Error,
    /// It ran longer than its budget.
    Budget,
    /// It took more memory than it may.
    Memory,
    /// It returned, or was given, what its contract excludes.
    BadResult,
}

impl FaultKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Error, Self::Budget, Self::Memory, Self::BadResult];

    pub(crate) fn of(fault: &Fault) -> Self {
        match fault {
            Fault::Error(_) => Self::Error,
            Fault::Budget { .. } => Self::Budget,
            Fault::Memory { .. } => Self::Memory,
            Fault::BadResult(_) | Fault::Lacks(_) | Fault::StateSize { .. } | Fault::LimitTooLarge { .. } => {
                Self::BadResult
            }
        }
    }
}

/// What a shard counts. It only grows; the node publishes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// By policy, in the order of the host's ids.
    pub policies: Vec<PolicyStats>,
    /// Buckets dropped because they were full again.
    pub expired: u64,
    /// Buckets dropped for want of memory.
    pub shed: u64,
    /// New keys refused for want of memory.
    pub out_of_memory: u64,
    /// Checks refused because every interned limit was in use.
    pub too_many_limits: u64,
    /// Commands refused because their key was too long.
    pub keys_too_long: u64,
    /// Commands refused because a string would have become too long.
    pub strings_too_long: u64,
    /// Commands refused because their pattern was too long, since they were last taken.
    pub(crate) patterns_too_long: u64,
    /// Commands refused because they asked for too many random elements.
    pub too_many_picks: u64,
    /// What came from other nodes and could not be kept.
    pub carry: CarryStats,
    /// Commands refused because they would have waited for too many keys.
    pub too_many_awaited: u64,
    /// Writes refused because there was no room to note them.
    pub undo_full: u64,
}

impl ShardStats {
    pub(crate) fn count(&mut self, policy: PolicyId, verdict: Verdict) {
        let Some(stats) = self.policies.get_mut(policy.index()) else {
            return;
        };
        match verdict {
            Verdict::Allowed => stats.allowed += 1,
            Verdict::Denied => stats.denied += 1,
            Verdict::Error => stats.errors += 1,
        }
    }
}
