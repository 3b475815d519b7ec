//! Properties of the scanner over generated pipelines, with redis-protocol as the other encoder.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use redis_protocol::resp2::encode::extend_encode;
use redis_protocol::resp2::types::BytesFrame;
use tollgate_protocol::{Progress, ProtocolError, ScanLimits, Scanner, encode_request};

type Args = Vec<Vec<u8>>;

/// The requests in `wire`, which arrives in parts that end at `cuts` and at its end.
fn scan_in_parts(wire: &[u8], cuts: &[usize]) -> (Vec<Args>, Option<ProtocolError>) {
    let mut scanner = Scanner::new(ScanLimits::default());
    let mut requests = Vec::new();
    let mut at = 0;
    for arrived in cuts.iter().copied().chain([wire.len()]) {
        loop {
            match scanner.next(&wire[at..arrived]) {
                Ok(Progress::Incomplete { .. }) => break,
                Ok(Progress::Empty { consumed }) => at += consumed,
                Ok(Progress::Request { consumed }) => {
                    let request = scanner.request(&wire[at..arrived]);
                    requests.push(request.iter().map(<[u8]>::to_vec).collect());
                    at += consumed;
                }
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn args() -> impl Strategy<Value = Args> {
    let arg = prop_oneof![
        8 => vec(any::<u8>(), 0..20),
        1 => vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'$'), Just(b'*')], 0..12),
        1 => vec(any::<u8>(), 90..1200),
    ];
    vec(arg, 1..14)
}

/// A request as an array, or as an inline command with every argument quoted.
fn wire_of(args: &Args, inline: bool) -> Vec<u8> {
    let mut wire = Vec::new();
    if inline {
        for arg in args {
            wire.push(b'"');
            for byte in arg {
                wire.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            wire.extend_from_slice(b"\" ");
        }
        wire.push(b'\n');
    } else {
        encode_request(args, &mut wire);
    }
    wire
}

fn pipeline() -> impl Strategy<Value = (Vec<Args>, Vec<u8>)> {
    vec((args(), any::<bool>(), 0..3u8), 1..12).prop_map(|requests| {
        let mut wire = Vec::new();
        for (args, inline, empties) in &requests {
            for _ in 0..*empties {
                wire.extend_from_slice(if *inline { b"\r\n" } else { b"*-1\r\n" });
            }
            wire.extend(wire_of(args, *inline));
        }
        (requests.into_iter().map(|(args, ..)| args).collect(), wire)
    })
}

proptest! {
    #[test]
    fn a_pipeline_cut_anywhere_gives_the_same_requests(
        (requests, wire) in pipeline(),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(scan_in_parts(&wire, &cuts), (requests, None));
    }

    #[test]
    fn what_redis_protocol_encodes_is_scanned_and_the_bytes_are_the_same(args in args()) {
        let frames = args.iter().map(|arg| BytesFrame::BulkString(Bytes::from(arg.clone())));
        let mut wire = BytesMut::new();
        extend_encode(&mut wire, &BytesFrame::Array(frames.collect()), false).unwrap();
        prop_assert_eq!(&wire_of(&args, false)[..], &wire[..]);
        prop_assert_eq!(scan_in_parts(&wire, &[]), (vec![args], None));
    }

    #[test]
    fn a_broken_pipeline_cut_anywhere_gives_the_same_requests_and_error(
        (_, mut wire) in pipeline(),
        breaks in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        for (at, byte) in breaks {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(scan_in_parts(&wire, &cuts), scan_in_parts(&wire, &[]));
    }

    #[test]
    fn any_bytes_are_requests_or_one_error(wire in vec(any::<u8>(), 0..300)) {
        let every_byte: Vec<usize> = (0..wire.len()).collect();
        prop_assert_eq!(scan_in_parts(&wire, &every_byte), scan_in_parts(&wire, &[]));
    }
}

#[test]
fn a_pipeline_cut_at_every_single_byte() {
    let wire = b"*2\r\n$3\r\nGET\r\n$12\r\nkey:12345678\r\n*0\r\nECHO \"a\\x00b\"\r\n\nPING\n*1\r\n$0\r\n\r\n";
    let (requests, error) = scan_in_parts(wire, &[]);
    assert_eq!((requests.len(), error), (4, None));
    for first in 0..=wire.len() {
        for second in first..=wire.len() {
            assert_eq!(scan_in_parts(wire, &[first, second]), (requests.clone(), None));
        }
    }
}
