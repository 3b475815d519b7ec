//! What a policy says about itself.

/// Which policy of a [`crate::PolicyHost`], in which version: a file replaced by one with another version or other
/// fields gets a new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(pub(crate) u16);

impl PolicyId {
    /// Its number, from 0 in the order in which the host's policies were loaded.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The form of a bucket's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fields {
    /// One to four numbers, with these names.
    Numbers(Vec<String>),
    /// One byte string, whose largest size follows from the parameters.
    Buffer,
}

/// The capacity of a bucket whose caller names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurstRule {
    /// The limit itself.
    Limit,
    /// This many tokens.
    Tokens(u64),
    /// The limit itself, and a caller that gives a burst is refused.
    None,
}

/// What a policy declares, checked when its file is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyInfo {
    /// The policy's name.
    pub name: String,
    /// The file's version, at least 1.
    pub version: u32,
    /// The form of a bucket's state.
    pub fields: Fields,
    /// The default capacity.
    pub burst: BurstRule,
    /// The largest limit that it takes, in tokens, if it says one. Whoever asks for more is refused before the file is called.
    pub limit_max: Option<u64>,
    /// Tokens can be given back.
    pub has_give: bool,
    /// A bucket can be charged into debt.
    pub has_take: bool,
    /// A changed limit is handled by the file; otherwise a new state is charged with what was used.
    pub has_resize: bool,
    /// A bucket can be split into sub-buckets.
    pub has_split: bool,
    /// Sub-buckets can be merged.
    pub has_merge: bool,
    /// The file is byte for byte one of those built into the binary and so runs without a budget.
    pub trusted: bool,
}

impl PolicyInfo {
    /// Whether a caller may name a burst of its own.
    pub fn accepts_burst(&self) -> bool {
        self.burst != BurstRule::None
    }

    /// The capacity, in tokens, of a bucket with this limit whose caller names no burst.
    pub fn default_burst(&self, limit: u64) -> u64 {
        match self.burst {
            BurstRule::Tokens(tokens) => tokens,
            BurstRule::Limit | BurstRule::None => limit,
        }
    }

    /// Whether stored states of `other` can be read by this policy.
    pub(crate) fn reads_states_of(&self, other: &PolicyInfo) -> bool {
        self.version == other.version && self.fields == other.fields
    }

    /// How many numbers a state has at most; 0 for a buffer.
    pub(crate) fn number_fields(&self) -> usize {
        match &self.fields {
            Fields::Numbers(names) => names.len(),
            Fields::Buffer => 0,
        }
    }
}
