//! The fuzz targets' bodies over their seeds and a fixed stream of mutations, so that they run on any toolchain.
//!
//! `TOLLGATE_FUZZ_ROUNDS` sets the mutations a target (default 20,000).

#[path = "../../../fuzz/src/rounds.rs"]
mod rounds;
#[path = "../../../fuzz/src/scan_request.rs"]
mod scan_request;
#[path = "../../../fuzz/src/write_reply.rs"]
mod write_reply;

/// What means something to either side of the protocol.
const TELLING: &[u8] = b"*$:+-\r\n0123456789\"'\\x \0\xff";

#[test]
fn scan_request() {
    rounds::run("scan_request", TELLING, scan_request::run);
}

#[test]
fn write_reply() {
    rounds::run("write_reply", TELLING, write_reply::run);
}
