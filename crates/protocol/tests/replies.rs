//! The bytes of every reply in both protocols, and what a client makes of them.

use bytes::BytesMut;
use tollgate_protocol::{DecodeError, Proto, Reply, ReplyWriter, decode_reply};

fn written(proto: Proto, write: impl FnOnce(&mut ReplyWriter<'_>)) -> String {
    let mut out = Vec::new();
    write(&mut ReplyWriter::new(&mut out, proto));
    String::from_utf8(out).expect("text was written")
}

#[test]
fn each_kind_has_its_bytes_in_both_protocols() {
    type Write = fn(&mut ReplyWriter<'_>);
    let table: &[(Write, &str, &str)] = &[
        (|w| w.ok(), "+OK\r\n", "+OK\r\n"),
        (|w| w.simple("a\r\nb"), "+a  b\r\n", "+a  b\r\n"),
        (|w| w.int(0), ":0\r\n", ":0\r\n"),
        (|w| w.int(-1), ":-1\r\n", ":-1\r\n"),
        (
            |w| w.int(i64::MIN),
            ":-9223372036854775808\r\n",
            ":-9223372036854775808\r\n",
        ),
        (|w| w.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (|w| w.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
        (|w| w.bulk_int(-10), "$3\r\n-10\r\n", "$3\r\n-10\r\n"),
        (
            |w| w.bulk_int(i64::MAX),
            "$19\r\n9223372036854775807\r\n",
            "$19\r\n9223372036854775807\r\n",
        ),
        (|w| w.null(), "$-1\r\n", "_\r\n"),
        (|w| w.null_array(), "*-1\r\n", "_\r\n"),
        (|w| w.bool(true), ":1\r\n", "#t\r\n"),
        (|w| w.bool(false), ":0\r\n", "#f\r\n"),
        (|w| w.double(3.0), "$1\r\n3\r\n", ",3\r\n"),
        (|w| w.double(0.1), "$3\r\n0.1\r\n", ",0.1\r\n"),
        (|w| w.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (|w| w.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
        (
            |w| w.big_number(b"123456789012345678901"),
            "$21\r\n123456789012345678901\r\n",
            "(123456789012345678901\r\n",
        ),
        (|w| w.verbatim(b"a\nb"), "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"),
        (|w| w.array(0), "*0\r\n", "*0\r\n"),
        (|w| w.array(12), "*12\r\n", "*12\r\n"),
        (|w| w.map(5), "*10\r\n", "%5\r\n"),
        (|w| w.set(1000), "*1000\r\n", "~1000\r\n"),
        (|w| w.push(3), "*3\r\n", ">3\r\n"),
        (|w| w.error("ERR", "bad"), "-ERR bad\r\n", "-ERR bad\r\n"),
        (|w| w.error("CODE", ""), "-CODE\r\n", "-CODE\r\n"),
        (
            |w| w.error("ERR", "\r\nline one\nline two\r\n"),
            "-ERR line one line two\r\n",
            "-ERR line one line two\r\n",
        ),
        (|w| w.error("ERR", "\r\n"), "-ERR\r\n", "-ERR\r\n"),
        (|w| w.raw(b":1\r\n:2\r\n"), ":1\r\n:2\r\n", ":1\r\n:2\r\n"),
    ];
    for (write, resp2, resp3) in table {
        assert_eq!(written(Proto::Resp2, write), *resp2);
        assert_eq!(written(Proto::Resp3, write), *resp3);
    }
}

#[test]
fn integers_of_every_length() {
    let powers = (0..19).map(|exponent| 10_i64.pow(exponent));
    for n in powers.flat_map(|power| [power - 1, power, power + 1, -power, 1 - power]) {
        assert_eq!(written(Proto::Resp2, |w| w.int(n)), format!(":{n}\r\n"));
        let text = n.to_string();
        let bulk = format!("${}\r\n{text}\r\n", text.len());
        assert_eq!(written(Proto::Resp2, |w| w.bulk_int(n)), bulk);
    }
    let extremes = [0, i64::MIN, -1, i64::MAX, 10, 1_727_314_860_123];
    let each = extremes.map(|n| format!(":{n}\r\n")).concat();
    let array = written(Proto::Resp3, |w| w.array_of_ints(7, extremes));
    assert_eq!(array, format!("*7\r\n{each}"));
    for len in [0, 9, 10, 99, 100, 999, 1000, 123_456] {
        let bulk = written(Proto::Resp2, |w| w.bulk(&vec![b'x'; len]));
        assert_eq!(bulk, format!("${len}\r\n{}\r\n", "x".repeat(len)));
    }
}

#[test]
fn what_was_written_can_be_cut_off_again() {
    let text = written(Proto::Resp2, |writer| {
        writer.int(1);
        let position = writer.position();
        writer.array(2);
        writer.truncate(position);
        writer.error("ERR", "no");
    });
    assert_eq!(text, ":1\r\n-ERR no\r\n");
}

#[test]
fn a_map_keeps_its_order() {
    let mut out = Vec::new();
    let mut writer = ReplyWriter::new(&mut out, Proto::Resp3);
    let names = [
        "allowed",
        "limit",
        "remaining",
        "retry_after_ms",
        "reset_at_ms",
        "source",
    ];
    writer.map(names.len());
    for (value, name) in names.iter().enumerate() {
        writer.bulk(name.as_bytes());
        writer.int(value as i64);
    }
    let mut wire = BytesMut::from(&out[..]);
    let expected = names.iter().enumerate().map(|(value, name)| {
        let key = Reply::Bulk(name.as_bytes().into());
        (key, Reply::Int(value as i64))
    });
    let decoded = decode_reply(&mut wire, Proto::Resp3).unwrap();
    assert_eq!(decoded, Some(Reply::Map(expected.collect())));
    assert!(wire.is_empty());
}

#[test]
fn attributes_are_dropped_and_oddities_refused() {
    let mut wire = BytesMut::from(&b"|1\r\n+ttl\r\n:3600\r\n$1\r\na\r\n"[..]);
    let decoded = decode_reply(&mut wire, Proto::Resp3).unwrap();
    assert_eq!(decoded, Some(Reply::Bulk("a".into())));

    let mut wire = BytesMut::from(&b"HELLO 3\r\n"[..]);
    let decoded = decode_reply(&mut wire, Proto::Resp3);
    assert!(matches!(decoded, Err(DecodeError::UnexpectedKind("HELLO"))));
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut wire = BytesMut::from(&b"@what\r\n"[..]);
        let decoded = decode_reply(&mut wire, proto);
        assert!(matches!(decoded, Err(DecodeError::Malformed(_))));
        assert_eq!(decode_reply(&mut BytesMut::new(), proto).unwrap(), None);
    }
}
