//! What a listener looks like to its clients.

/// What a listener looks like to its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Face {
    /// One stand-alone server that has all keys.
    #[default]
    Default,
    /// A node of Redis Cluster, which sends clients to the node that has a key.
    Redirect,
}

impl Face {
    /// Whether it is that of Redis Cluster.
    pub fn redirects(self) -> bool {
        self == Self::Redirect
    }

    /// What Redis calls it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::Default => "standalone",
            Self::Redirect => "cluster",
        }
    }
}
