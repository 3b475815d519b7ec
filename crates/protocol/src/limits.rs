//! How large a request may be.

/// Most arguments of a request on a connection that has not authenticated yet, as in Redis.
pub const UNAUTHENTICATED_MAX_ARGS: usize = 10;

/// Largest argument, in bytes, on a connection that has not authenticated yet, as in Redis.
pub const UNAUTHENTICATED_MAX_BULK_BYTES: usize = 16 * 1024;

/// The bounds of one request. All are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimits {
    /// Most arguments, the command's name included. Default 1024 × 1024 (Redis before 7.0; later only bounded by `int`).
    pub max_args: usize,
    /// Largest argument in bytes. Default 512 MiB, the default of Redis's `proto-max-bulk-len`.
    pub max_bulk_bytes: usize,
    /// Longest inline command, and longest line that holds a count, in bytes without the line feed. Default 64 KiB, Redis's
    /// `PROTO_INLINE_MAX_SIZE`.
    pub max_inline_bytes: usize,
    /// Longest whole request in bytes, as it is on the wire. Default 1 GiB, the default of Redis's
    /// `client-query-buffer-limit`. More than [`ScanLimits::REQUEST_BYTES_CEILING`] counts as that.
    pub max_request_bytes: usize,
}

impl ScanLimits {
    /// No request may be longer than this, whatever the settings: argument positions are kept in 32 bits.
    pub const REQUEST_BYTES_CEILING: usize = u32::MAX as usize;
}

impl Default for ScanLimits {
    fn default() -> Self {
        Self {
            max_args: 1024 * 1024,
            max_bulk_bytes: 512 * 1024 * 1024,
            max_inline_bytes: 64 * 1024,
            max_request_bytes: 1024 * 1024 * 1024,
        }
    }
}
