//! The scanner on inputs chosen by hand. Texts and limits were compared with a Redis server.

use std::time::{Duration, Instant};

use tollgate_protocol::{
    KEPT_ARGS, KEPT_SCRATCH_BYTES, Progress, Proto, ProtocolError, ReplyWriter, ScanLimits, Scanner, encode_request,
};

/// Whole requests of `input`, and the error line that ends them, if any.
fn scan_all(scanner: &mut Scanner, input: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<Vec<u8>>) {
    let mut requests = Vec::new();
    let mut at = 0;
    loop {
        match scanner.next(&input[at..]) {
            Ok(Progress::Incomplete { .. }) => return (requests, None),
            Ok(Progress::Empty { consumed }) => at += consumed,
            Ok(Progress::Request { consumed }) => {
                let request = scanner.request(&input[at..]);
                requests.push(request.iter().map(<[u8]>::to_vec).collect());
                at += consumed;
            }
            Err(error) => {
                let mut out = Vec::new();
                ReplyWriter::new(&mut out, Proto::Resp2).protocol_error(&error);
                return (requests, Some(out));
            }
        }
    }
}

fn scanner() -> Scanner {
    Scanner::new(ScanLimits::default())
}

fn words(args: &[&str]) -> Vec<Vec<u8>> {
    args.iter().map(|arg| arg.as_bytes().to_vec()).collect()
}

#[test]
fn malformed_requests_get_the_error_that_redis_gives() {
    let long_line = vec![b'1'; 64 * 1024];
    let with = |prefix: &[u8]| [prefix, &long_line].concat();
    let table: &[(&[u8], &str)] = &[
        (b"*\r\n", "invalid multibulk length"),
        (b"*a\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*-0\r\n", "invalid multibulk length"),
        (b"*1.0\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*9223372036854775808\r\n", "invalid multibulk length"),
        (b"*-9223372036854775809\r\n", "invalid multibulk length"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*2\r\n$3\r\nGET\r\nkey\r\n", "expected '$', got 'k'"),
        (b"*1\r\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$04\r\n", "invalid bulk length"),
        (b"*1\r\n$4 \r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        (b"*1\r\n$18446744073709551616\r\n", "invalid bulk length"),
        (&with(b"*"), "too big mbulk count string"),
        (&with(b"*1\r\n$"), "too big bulk count string"),
        (&with(b"*1\r\nx"), "too big bulk count string"),
        (&with(b"x"), "too big inline request"),
        (b"SET \"key\r\n", "unbalanced quotes in request"),
        (b"SET 'key\n", "unbalanced quotes in request"),
        (b"SET \"key\"value\r\n", "unbalanced quotes in request"),
        (b"SET 'key''value'\r\n", "unbalanced quotes in request"),
        (b"\"\\\n", "unbalanced quotes in request"),
        (b"\"\\\"\n", "unbalanced quotes in request"),
        (b"'\\'\n", "unbalanced quotes in request"),
    ];
    for (input, text) in table {
        // A request before is answered, one after is not looked at.
        let input = [b"*1\r\n$4\r\nPING\r\n", *input, b"PING\r\n"].concat();
        let (requests, error) = scan_all(&mut scanner(), &input);
        assert_eq!(requests, [words(&["PING"])], "before {text}");
        let expected = format!("-ERR Protocol error: {text}\r\n");
        let error = String::from_utf8(error.unwrap()).unwrap();
        assert_eq!(error, expected, "for {}", input[14..].escape_ascii());
    }
}

#[test]
fn a_byte_that_is_no_text_is_named_as_it_is() {
    let (_, error) = scan_all(&mut scanner(), b"*1\r\n\xffa\r\n");
    assert_eq!(error.unwrap(), b"-ERR Protocol error: expected '$', got '\xff'\r\n");
    assert_eq!(
        ProtocolError::ExpectedDollar(0xff).to_string(),
        r"Protocol error: expected '$', got '\xff'"
    );
}

#[test]
fn what_redis_still_waits_for_is_incomplete() {
    let line = vec![b'1'; 64 * 1024 - 1];
    let inputs: &[&[u8]] = &[
        b"",
        b"*",
        b"*1",
        b"*1\r",
        b"*1\r\n",
        b"*1\r\nfoo",
        b"*1\r\nfoo\r",
        b"*1\r\n$4\r\nPING",
        b"*1\r\n$4\r\nPING\r",
        b"*1048576\r\n",
        b"PING",
        b"\"PING",
        &[b"*", &line[..]].concat(),
        &[b"*1\r\n$", &line[..]].concat(),
        &[b"A", &line[..]].concat(),
    ];
    for input in inputs {
        let progress = scanner().next(input);
        let Ok(Progress::Incomplete { need_at_least }) = progress else {
            panic!("{progress:?} for {}", input.escape_ascii());
        };
        assert!(need_at_least > input.len());
    }
    let progress = scanner().next(b"*2\r\n$3\r\nGET\r\n$10\r\nab");
    let need_at_least = 4 + 9 + 5 + 10 + 2;
    assert_eq!(progress, Ok(Progress::Incomplete { need_at_least }));
}

#[test]
fn requests_without_arguments_are_skipped() {
    let input = b"*0\r\n*-1\r\n*-9223372036854775808\r\n\r\n\n \t\r\n\x0b\x0c\nPING\n*0\r\n";
    let (requests, error) = scan_all(&mut scanner(), input);
    assert_eq!((requests, error), (vec![words(&["PING"])], None));
    assert_eq!(scanner().next(b"*0\r\nPING\n"), Ok(Progress::Empty { consumed: 4 }));
}

#[test]
fn what_follows_an_argument_is_not_looked_at() {
    let (requests, error) = scan_all(&mut scanner(), b"*1\rX$4\rYPINGzz*1\r\n$1\r\na\r\n");
    assert_eq!((requests, error), (vec![words(&["PING"]), words(&["a"])], None));
}

#[test]
fn inline_words_are_split_as_redis_splits_them() {
    let table: &[(&[u8], &[&[u8]])] = &[
        (b"PING\n", &[b"PING"]),
        (b"PING\r\n", &[b"PING"]),
        (b"PING\r\r\n", &[b"PING"]),
        (b"\rPING\n", &[b"PING"]),
        (b"  SET\tkey   v \r\n", &[b"SET", b"key", b"v"]),
        (b"PI\rNG\n", &[b"PI", b"NG"]),
        (b"ECHO a\x0bb\x0c\n", &[b"ECHO", b"a\x0bb\x0c"]),
        (b"\x0b\x0c PING\n", &[b"PING"]),
        (b"ECHO a\0b\n", &[b"ECHO", b"a\0b"]),
        (b"ECHO \"\" ''\n", &[b"ECHO", b"", b""]),
        (b"ECHO \"a b\"\x0b'c d'\n", &[b"ECHO", b"a b", b"c d"]),
        (b"PI\"NG\"\n", &[b"PING"]),
        (b"a'b c' d\n", &[b"ab c", b"d"]),
        (b"\"\\x50\\x49nG\"\n", &[b"PInG"]),
        (b"\"\\xfF\\x0a\"\n", &[b"\xff\n"]),
        (b"\"\\n\\r\\t\\b\\a\\q\\\\\\\"\"\n", &[b"\n\r\t\x08\x07q\\\""]),
        (b"\"\\xzz\\x4\"\n", &[b"xzzx4"]),
        (b"'it\\'s \\n\"'\n", &[b"it's \\n\""]),
        (b"a\\nb \\\"x\"\n", &[b"a\\nb", b"\\x"]),
        (b"'*1'\n", &[b"*1"]),
    ];
    for (input, expected) in table {
        let (requests, error) = scan_all(&mut scanner(), input);
        assert_eq!(error, None, "for {}", input.escape_ascii());
        assert_eq!(requests, [expected.to_vec()], "for {}", input.escape_ascii());
    }
}

#[test]
fn every_length_of_argument_and_count() {
    let lengths = [0, 1, 9, 10, 99, 100, 999, 1000, 16 * 1024, 70_000];
    for len in lengths {
        for count in [1, 2, 9, 10, 11, 1000] {
            if len * count > 1_000_000 {
                continue;
            }
            let args = vec![vec![b'\r'; len]; count];
            let mut wire = Vec::new();
            encode_request(&args, &mut wire);
            let (requests, error) = scan_all(&mut scanner(), &wire);
            assert_eq!(error, None);
            assert!(requests == [args], "{count} arguments of {len} bytes");
        }
    }
}

#[test]
fn each_limit_holds_exactly() {
    let limits = ScanLimits {
        max_args: 3,
        max_bulk_bytes: 5,
        max_inline_bytes: 12,
        max_request_bytes: 30,
    };
    let next = |input: &[u8]| Scanner::new(limits).next(input);
    let whole = |consumed| Ok(Progress::Request { consumed });

    assert_eq!(next(b"*3\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n"), whole(22));
    assert_eq!(next(b"*4\r\n"), Err(ProtocolError::InvalidMultibulkLength));
    assert_eq!(next(b"*10\r\n"), Err(ProtocolError::InvalidMultibulkLength));
    assert_eq!(next(b"a b c\n"), whole(6));
    assert_eq!(next(b"a b c d\n"), Err(ProtocolError::InvalidMultibulkLength));
    assert_eq!(next(b"a b c 'd'\n"), Err(ProtocolError::InvalidMultibulkLength));

    assert_eq!(next(b"*1\r\n$5\r\n12345\r\n"), whole(15));
    assert_eq!(next(b"*1\r\n$6\r\n"), Err(ProtocolError::InvalidBulkLength));
    assert_eq!(next(b"*1\r\n$6\r\n123456\r\n"), Err(ProtocolError::InvalidBulkLength));

    assert_eq!(next(b"123456789012\n"), whole(13));
    assert_eq!(next(b"1234567890123"), Err(ProtocolError::TooBigInlineRequest));
    assert_eq!(next(b"1234567890123\n"), Err(ProtocolError::TooBigInlineRequest));
    assert_eq!(next(b"*100000000000\r\n"), Err(ProtocolError::TooBigMultibulkCount));

    assert_eq!(
        next(b"*3\r\n$5\r\n12345\r\n$3\r\n123\r\n$1\r\n1\r\n"),
        Err(ProtocolError::TooBigRequest)
    );
    assert_eq!(next(b"*3\r\n$5\r\n12345\r\n$3\r\n123\r\n$0\r\n\r\n"), whole(30));
    // Refused as soon as the length is read, not when the bytes have come.
    assert_eq!(
        next(b"*3\r\n$5\r\n12345\r\n$5\r\n12345\r\n$3\r\n"),
        Err(ProtocolError::TooBigRequest)
    );
    let early = b"*3\r\n$5\r\n12345\r\n$5\r\n12345\r\n$";
    let need_at_least = early.len() + 1;
    assert_eq!(next(early), Ok(Progress::Incomplete { need_at_least }));
}

#[test]
fn strangers_have_redis_limits() {
    let mut stranger = scanner();
    stranger.set_authenticated(false);
    let args = vec![vec![b'a'; 16_384]; 10];
    let mut wire = Vec::new();
    encode_request(&args, &mut wire);
    assert_eq!(scan_all(&mut stranger, &wire), (vec![args], None));

    let cases: [(&[u8], &str); 2] = [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ];
    for (input, text) in cases {
        let mut stranger = scanner();
        stranger.set_authenticated(false);
        let (_, error) = scan_all(&mut stranger, input);
        assert_eq!(error.unwrap(), format!("-ERR Protocol error: {text}\r\n").as_bytes());
        assert_eq!(scan_all(&mut scanner(), input), (vec![], None));
    }
}

#[test]
fn an_error_is_final() {
    let mut scanner = scanner();
    let error = Err(ProtocolError::InvalidMultibulkLength);
    assert_eq!(scanner.next(b"*x\r\n"), error);
    assert_eq!(scanner.next(b"PING\r\n"), error);
    assert_eq!(scanner.next(b""), error);
    assert!(scanner.args().is_empty());
}

#[test]
fn deep_nesting_is_refused_at_the_second_level() {
    let input = b"*1\r\n".repeat(20_000);
    let start = Instant::now();
    assert_eq!(scanner().next(&input), Err(ProtocolError::ExpectedDollar(b'*')));
    assert!(start.elapsed() < Duration::from_secs(1));
}

/// Calls the scanner once a byte; every byte is looked at once, so that this takes milliseconds and not minutes.
fn scan_byte_by_byte(wire: &[u8]) -> Duration {
    let mut scanner = Scanner::new(ScanLimits {
        max_inline_bytes: 2 << 20,
        ..ScanLimits::default()
    });
    let start = Instant::now();
    for arrived in 0..wire.len() {
        let progress = scanner.next(&wire[..arrived]);
        assert!(matches!(progress, Ok(Progress::Incomplete { .. })), "{progress:?}");
    }
    let consumed = wire.len();
    assert_eq!(scanner.next(wire), Ok(Progress::Request { consumed }));
    start.elapsed()
}

#[test]
fn a_megabyte_that_comes_one_byte_at_a_time() {
    const LONGEST: Duration = Duration::from_secs(1);
    let mut one_large = Vec::new();
    encode_request(&[vec![b'x'; 1 << 20]], &mut one_large);
    let mut many_small = Vec::new();
    encode_request(&vec![b"abc"; 100_000], &mut many_small);

    let line = [&[b'x'; 1 << 20][..], b"\n"].concat();
    for wire in [one_large, many_small, line] {
        let took = scan_byte_by_byte(&wire);
        assert!(took < LONGEST, "{took:?}");
    }
}

#[test]
fn a_million_arguments_are_given_back() {
    let args = vec![b"a"; 1 << 20];
    let mut wire = Vec::new();
    encode_request(&args, &mut wire);
    let mut scanner = scanner();
    let start = Instant::now();
    let consumed = wire.len();
    assert_eq!(scanner.next(&wire), Ok(Progress::Request { consumed }));
    assert!(start.elapsed() < Duration::from_secs(1));
    let request = scanner.request(&wire);
    assert_eq!(request.len(), args.len());
    assert!(request.iter().all(|arg| arg == b"a"));
    assert!(scanner.heap_bytes() >= 8 << 20);

    assert_eq!(scanner.next(b"PING\n"), Ok(Progress::Request { consumed: 5 }));
    assert!(scanner.heap_bytes() <= KEPT_ARGS * 8);

    let quoted = [b"\"", &[b'q'; 60_000][..], b"\"\n"].concat();
    assert!(matches!(scanner.next(&quoted), Ok(Progress::Request { .. })));
    assert_eq!(scanner.next(b"PING\n"), Ok(Progress::Request { consumed: 5 }));
    assert!(scanner.heap_bytes() <= KEPT_ARGS * 8 + KEPT_SCRATCH_BYTES);
}

#[test]
fn a_large_count_reserves_nothing() {
    let mut scanner = scanner();
    let progress = scanner.next(b"*1048576\r\n$1\r\na\r\n");
    assert!(matches!(progress, Ok(Progress::Incomplete { .. })));
    assert!(scanner.heap_bytes() < 256);
}
