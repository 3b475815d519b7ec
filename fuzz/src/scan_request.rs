//! The request scanner against any bytes.
//!
//! However the bytes arrive, the same requests come out, then at most one error; and where redis-protocol sees an array of bulk
//! strings, the scanner sees the same arguments.

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;
use tollgate_protocol::{Progress, ProtocolError, ScanLimits, Scanner, encode_request};

/// Everything that a connection's bytes amount to.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The arguments of every whole request.
    pub requests: Vec<Vec<Vec<u8>>>,
    /// Bytes that whole requests, empty ones too, took.
    pub consumed: usize,
    /// What ended it, if anything.
    pub error: Option<ProtocolError>,
}

/// The target's body.
pub fn run(data: &[u8]) {
    let small = ScanLimits {
        max_args: 5,
        max_bulk_bytes: 20,
        max_inline_bytes: 30,
        max_request_bytes: 60,
    };
    for limits in [ScanLimits::default(), small] {
        for authenticated in [true, false] {
            let scanner = || {
                let mut scanner = Scanner::new(limits);
                scanner.set_authenticated(authenticated);
                scanner
            };
            let whole = scan(scanner(), data, data.len().max(1), false);
            for step in [1, 2, 3, 7, 64] {
                assert_eq!(whole, scan(scanner(), data, step, false), "in steps of {step}");
                assert_eq!(whole, scan(scanner(), data, step, true), "called when needed");
            }
        }
    }
    agrees_with_redis_protocol(data);
}

/// Feeds `data` to a connection's scanner, `step` bytes at a time. `patient` calls it again only when it has the bytes that
/// it asked for.
pub fn scan(mut scanner: Scanner, data: &[u8], step: usize, patient: bool) -> Outcome {
    let mut outcome = Outcome {
        requests: Vec::new(),
        consumed: 0,
        error: None,
    };
    let mut arrived = 0;
    while arrived < data.len() && outcome.error.is_none() {
        arrived = data.len().min(arrived + step);
        let mut need = 0;
        while outcome.error.is_none() {
            let buf = &data[outcome.consumed..arrived];
            if patient && buf.len() < need && arrived < data.len() {
                arrived = data.len().min(arrived + step);
                continue;
            }
            match scanner.next(buf) {
                Ok(Progress::Incomplete { need_at_least }) => {
                    assert!(need_at_least > buf.len());
                    assert!(scanner.request(buf).is_empty());
                    need = need_at_least;
                    if !patient || arrived == data.len() {
                        break;
                    }
                }
                Ok(Progress::Request { consumed }) => {
                    assert!(0 < consumed && consumed <= buf.len());
                    let request = scanner.request(buf);
                    assert!(!request.is_empty());
                    assert_eq!(request.len(), scanner.args().len());
                    outcome.requests.push(request.iter().map(<[u8]>::to_vec).collect());
                    outcome.consumed += consumed;
                    need = 0;
                }
                Ok(Progress::Empty { consumed }) => {
                    assert!(0 < consumed && consumed <= buf.len());
                    outcome.consumed += consumed;
                    need = 0;
                }
                Err(error) => {
                    assert_eq!(scanner.next(&data[outcome.consumed..]), Err(error));
                    assert_eq!(scanner.next(b""), Err(error));
                    outcome.error = Some(error);
                }
            }
        }
    }
    outcome
}

/// Where redis-protocol reads a command in its one canonical form, so does the scanner, and the other way round.
fn agrees_with_redis_protocol(data: &[u8]) {
    let mut scanner = Scanner::new(ScanLimits::default());
    let scanned = match scanner.next(data) {
        Ok(Progress::Request { consumed }) => {
            let request = scanner.request(data);
            let args: Vec<Vec<u8>> = request.iter().map(<[u8]>::to_vec).collect();
            let mut canonical = Vec::new();
            encode_request(&args, &mut canonical);
            assert_eq!(decode_command(&canonical), Some((args.clone(), canonical.len())));
            Some((args, consumed))
        }
        _ => None,
    };
    if let Some((args, len)) = decode_command(data) {
        let mut canonical = Vec::new();
        encode_request(&args, &mut canonical);
        if data[..len] == canonical[..] && !args.is_empty() {
            assert_eq!(scanned, Some((args, len)));
        }
    }
}

/// The array of bulk strings at the start of `data` and its length in bytes, if redis-protocol sees one.
fn decode_command(data: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    /// redis-protocol recurses once a level, so that deep nesting would end the process.
    const NESTING_MAX: usize = 100;
    let nesting = data.split(|byte| *byte == b'$').next()?;
    if nesting.iter().filter(|byte| **byte == b'*').count() > NESTING_MAX {
        return None;
    }
    let Ok(Some((RangeFrame::Array(frames), len))) = decode_range(data) else {
        return None;
    };
    let mut args = Vec::new();
    for frame in frames {
        let RangeFrame::BulkString((start, end)) = frame else {
            return None;
        };
        args.push(data[start..end].to_vec());
    }
    Some((args, len))
}
