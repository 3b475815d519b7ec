//! Tollgate: limiter.
