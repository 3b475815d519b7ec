//! Tollgate: node.
