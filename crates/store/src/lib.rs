//! Tollgate: store.
