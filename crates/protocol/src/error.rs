//! Why a request was refused.

/// A request that breaks the protocol or a bound. The connection gets this error, once, and is closed.
///
/// The texts are those of Redis 7.2; [`ProtocolError::TooBigRequest`] is ours, since Redis closes without a word there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The count after `*` is no integer or above [`max_args`](crate::ScanLimits::max_args).
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// More than [`UNAUTHENTICATED_MAX_ARGS`](crate::UNAUTHENTICATED_MAX_ARGS) arguments before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// No end of the line that starts with `*` within [`max_inline_bytes`](crate::ScanLimits::max_inline_bytes).
    #[error("Protocol error: too big mbulk count string")]
    TooBigMultibulkCount,
    /// An argument starts with this byte instead of `$`.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    ExpectedDollar(u8),
    /// The length after `$` is no integer, negative, or above [`max_bulk_bytes`](crate::ScanLimits::max_bulk_bytes).
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// More than [`UNAUTHENTICATED_MAX_BULK_BYTES`](crate::UNAUTHENTICATED_MAX_BULK_BYTES) before authentication.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// No end of an argument's line of length within [`max_inline_bytes`](crate::ScanLimits::max_inline_bytes).
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkCount,
    /// No line feed within [`max_inline_bytes`](crate::ScanLimits::max_inline_bytes) of an inline command.
    #[error("Protocol error: too big inline request")]
    TooBigInlineRequest,
    /// An inline command's quote is not closed, or its closing quote is not followed by a blank.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The request is longer than [`max_request_bytes`](crate::ScanLimits::max_request_bytes).
    #[error("Protocol error: too big request")]
    TooBigRequest,
}
