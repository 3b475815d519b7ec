//! The bodies of the fuzz targets: each takes any bytes and panics when a promise is broken.

pub mod peer_wire;
pub mod scan_request;
pub mod write_reply;
