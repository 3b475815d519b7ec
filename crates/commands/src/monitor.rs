//! What MONITOR shows of a command (Redis, `replicationFeedMonitors`).

use crate::Env;
use crate::table::Spec;
use std::io::Write as _;
use tollgate_protocol::Request;

/// Where a command comes from.
#[derive(Debug, Clone, Copy)]
pub enum ShownSource {
    /// A client at this address.
    Client(std::net::SocketAddr),
    /// A script.
    Script,
}

/// Whether MONITOR shows a command: what administers the server is left out, as in Redis.
pub fn is_shown(spec: &Spec) -> bool {
    !spec.has_flag("admin") && spec.name != "reset" && spec.name != "quit"
}

/// Writes the line that monitors read of the command of that name.
pub fn write_shown(env: &Env, source: ShownSource, name: &str, request: Request<'_>, out: &mut Vec<u8>) {
    let unix_us = env.unix_us();
    // Writing to a vector does not fail.
    let _ = write!(out, "+{}.{:06} [{} ", unix_us / 1_000_000, unix_us % 1_000_000, env.db);
    let _ = match source {
        ShownSource::Client(address) => write!(out, "{address}]"),
        ShownSource::Script => write!(out, "lua]"),
    };
    for (position, argument) in request.iter().enumerate() {
        out.push(b' ');
        match is_secret(name, request, position) {
            true => out.extend_from_slice(b"\"(redacted)\""),
            false => write_quoted(argument, out),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether an argument is a password, or the name that goes with it: those are shown nowhere.
pub(crate) fn is_secret(name: &str, request: Request<'_>, position: usize) -> bool {
    match name {
        "auth" => position > 0,
        "hello" => (1..=2).any(|before| {
            position > before + 1
                && request
                    .get(position - before)
                    .is_some_and(|option| option.eq_ignore_ascii_case(b"AUTH"))
        }),
        _ => false,
    }
}

/// An argument in quotes (Redis, `sdscatrepr`).
fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                // Writing to a vector does not fail.
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandTable;
    use crate::test_request::with_request;
    use tollgate_protocol::Proto;

    fn shown(args: &[&[u8]], source: ShownSource) -> String {
        let env = Env {
            db: 3,
            proto: Proto::Resp2,
            now_us: 5_000_020,
            wall_offset_us: 1_000_000_000_000_000,
        };
        let mut out = Vec::new();
        with_request(args, |request| {
            let spec = CommandTable::default().find(request.arg(0)).unwrap();
            write_shown(&env, source, spec.name, request, &mut out);
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_as_redis_writes_it() {
        let client = ShownSource::Client(([127, 0, 0, 1], 4242).into());
        assert_eq!(
            shown(&[b"set", b"q", b"a\"\\\n\r\t\x07\x08\x00\xff\x7f ~"], client),
            "+1000000005.000020 [3 127.0.0.1:4242] \"set\" \"q\" \"a\\\"\\\\\\n\\r\\t\\a\\b\\x00\\xff\\x7f ~\"\r\n"
        );
        assert_eq!(
            shown(&[b"get", b""], ShownSource::Script),
            "+1000000005.000020 [3 lua] \"get\" \"\"\r\n"
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        let arguments = |args: &[&[u8]]| {
            let line = shown(args, ShownSource::Script);
            line.split_once("] ").unwrap().1.trim_end().to_owned()
        };
        let hidden = "\"(redacted)\"";
        assert_eq!(arguments(&[b"AUTH", b"p"]), format!("\"AUTH\" {hidden}"));
        assert_eq!(arguments(&[b"AUTH", b"u", b"p"]), format!("\"AUTH\" {hidden} {hidden}"));
        assert_eq!(
            arguments(&[b"hello", b"3", b"SETNAME", b"x", b"auth", b"u", b"p"]),
            format!("\"hello\" \"3\" \"SETNAME\" \"x\" \"auth\" {hidden} {hidden}")
        );
    }
}
