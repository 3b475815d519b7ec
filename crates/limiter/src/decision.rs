//! What a check answers.

/// Where a decision was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// By the node that holds the key's slot.
    Owner,
    /// By its heir, on the replica, since it does not answer.
    Heir,
    /// By a node that reaches neither, on its share of the limit.
    Local,
}

impl Source {
    /// The word in the reply.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Owner => "owner",
            Source::Heir => "heir",
            Source::Local => "local",
        }
    }
}

/// The outcome of one check, in the slot's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the cost was taken (or, for a peek, would have been).
    pub allowed: bool,
    /// The limit L.
    pub limit: u64,
    /// Whole tokens left, never negative.
    pub remaining: u64,
    /// Microseconds until the same check would be admitted, if nobody else comes: 0 when allowed, `None` when never.
    pub retry_after_us: Option<u64>,
    /// The clock reading at which the bucket is full again if left alone, in microseconds.
    pub full_at_us: u64,
    /// Who decided.
    pub source: Source,
}

/// Microseconds in whole milliseconds, rounded up: a client that waits that long has waited long enough.
pub fn us_to_ms_ceil(us: u64) -> u64 {
    us.div_ceil(1_000)
}

/// Microseconds in whole seconds, rounded up.
pub fn us_to_s_ceil(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_up() {
        assert_eq!(
            [
                us_to_ms_ceil(0),
                us_to_ms_ceil(1),
                us_to_ms_ceil(1_000),
                us_to_ms_ceil(1_001)
            ],
            [0, 1, 1, 2]
        );
        assert_eq!(
            [
                us_to_s_ceil(0),
                us_to_s_ceil(1),
                us_to_s_ceil(1_000_000),
                us_to_s_ceil(1_000_001)
            ],
            [0, 1, 1, 2]
        );
    }
}
