//! Tollgate: script.
