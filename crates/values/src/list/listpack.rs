//! How large Redis's listpack would be: it decides between the encodings of a list.

use tollgate_protocol::parse_integer;

/// Bytes of an empty listpack.
pub(super) const EMPTY_BYTES: usize = 7;

/// Bytes that an element takes in a listpack: its header, itself, and its length again to walk backwards
/// ([listpack.md](https://github.com/antirez/listpack/blob/master/listpack.md)).
pub(super) fn element_bytes(element: &[u8]) -> usize {
    let forward = match parse_integer(element) {
        Some(0..=127) => 1,
        Some(-4096..=4095) => 2,
        Some(-32_768..=32_767) => 3,
        Some(-8_388_608..=8_388_607) => 4,
        Some(-2_147_483_648..=2_147_483_647) => 5,
        Some(_) => 9,
        None => match element.len() {
            0..64 => 1 + element.len(),
            64..4096 => 2 + element.len(),
            _ => 5 + element.len(),
        },
    };
    let backward = match forward {
        0..128 => 1,
        128..16_384 => 2,
        16_384..2_097_152 => 3,
        2_097_152..268_435_456 => 4,
        _ => 5,
    };
    forward + backward
}
