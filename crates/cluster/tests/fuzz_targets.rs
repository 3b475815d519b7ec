//! The fuzz target of the peers' protocol over its seeds and a fixed stream of mutations, so that it runs on any toolchain.
//!
//! `TOLLGATE_FUZZ_ROUNDS` sets the mutations (default 20,000).

#[path = "../../../fuzz/src/peer_wire.rs"]
mod peer_wire;
#[path = "../../../fuzz/src/rounds.rs"]
mod rounds;

#[test]
fn peer_wire() {
    // What means something in a length, in a hello, and as the first byte of a longer number.
    rounds::run(
        "peer_wire",
        b"TOLLPEER\0\x01\x02\x03\x7f\x80\xfa\xfb\xfc\xfd\xfe\xff",
        peer_wire::run,
    );
}
