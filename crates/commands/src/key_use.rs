//! What SET and BITFIELD do with their key, which depends on their options.

use tollgate_protocol::Request;

/// What SET does: with GET it reads, too.
pub(crate) fn of_set(request: Request<'_>) -> &'static [&'static str] {
    match request.iter().skip(3).any(|option| option.eq_ignore_ascii_case(b"GET")) {
        true => &["RW", "access", "update"],
        false => &["OW", "update"],
    }
}

/// What BITFIELD does: it may only read. Of what it does not understand it is said that it writes.
pub(crate) fn of_bitfield(request: Request<'_>) -> &'static [&'static str] {
    let mut at = 2;
    while let Some(word) = request.get(at) {
        let arguments = match word {
            get if get.eq_ignore_ascii_case(b"GET") => 2,
            overflow if overflow.eq_ignore_ascii_case(b"OVERFLOW") => 1,
            _ => return &["RW", "access", "update"],
        };
        at += 1 + arguments;
        if at > request.len() {
            return &["RW", "access", "update"];
        }
    }
    &["RO", "access"]
}
