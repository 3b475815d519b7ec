//! What can go wrong between two nodes.

use crate::limits::Bound;
use std::io::ErrorKind;
use thiserror::Error;

/// Why a peer does not answer, or a connection to it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PeerError {
    /// Nobody is in the view with that name.
    #[error("no peer has that name")]
    Unknown,
    /// Its address has no meaning here.
    #[error("the peer's address cannot be resolved")]
    Unresolved,
    /// No connection to it came about, for none of the other reasons: nothing was sent.
    #[error("no connection to the peer came about")]
    Unreached,
    /// Nobody listens at its address.
    #[error("the peer refused the connection")]
    Refused,
    /// The connection was reset.
    #[error("the peer reset the connection")]
    Reset,
    /// The connection was closed.
    #[error("the peer closed the connection")]
    Closed,
    /// It took too long.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// One of the two does not want the other (`Refusal::reason`).
    #[error("the handshake failed: {0}")]
    Handshake(&'static str),
    /// What it sent makes no sense.
    #[error("the peer broke the protocol")]
    Protocol,
    /// It does not know what was asked of it.
    #[error("the peer did not understand the request")]
    NotUnderstood,
    /// Too much waits for it.
    #[error("too much waits for the peer: {}", .0.info().label)]
    Full(Bound),
    /// The message is longer than a frame may be, or cannot be written.
    #[error("the message is too long for the peer")]
    TooLong,
    /// This node wants the connection no more: the peer has left, or it has another connection.
    #[error("the connection to the peer was given up")]
    GivenUp,
    /// Any other error of the system.
    #[error("the connection to the peer failed: {0}")]
    System(ErrorKind),
}

impl PeerError {
    /// Whether the peer may have got the request that failed in this way, and acted on it.
    pub fn may_have_arrived(self) -> bool {
        match self {
            Self::Unknown
            | Self::Unresolved
            | Self::Unreached
            | Self::Refused
            | Self::Handshake(_)
            | Self::Full(_)
            | Self::TooLong => false,
            // An answer that is too long comes back like that.
            Self::NotUnderstood
            | Self::Reset
            | Self::Closed
            | Self::TimedOut
            | Self::Protocol
            | Self::GivenUp
            | Self::System(_) => true,
        }
    }

    /// What requests are told that no connection was there for.
    pub(super) fn of_unsent(self) -> Self {
        match self.may_have_arrived() {
            true => Self::Unreached,
            false => self,
        }
    }
}

impl From<std::io::Error> for PeerError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => Self::Reset,
            ErrorKind::UnexpectedEof | ErrorKind::WriteZero => Self::Closed,
            ErrorKind::TimedOut => Self::TimedOut,
            kind => Self::System(kind),
        }
    }
}
