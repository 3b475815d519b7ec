//! Tollgate: commands.
