//! Tollgate: protocol.
