//! Requests for unit tests.

use tollgate_protocol::{ArgRange, Request};

/// Runs `test` on the request with these arguments.
pub(crate) fn with_request<T>(args: &[&[u8]], test: impl FnOnce(Request<'_>) -> T) -> T {
    let bytes = args.concat();
    let mut end = 0;
    let ranges: Vec<ArgRange> = args
        .iter()
        .map(|arg| {
            let start = end;
            end += arg.len() as u32;
            ArgRange { start, end }
        })
        .collect();
    test(Request::new(&bytes, &ranges))
}

/// Runs `test` on the request with the words of `line` as arguments.
pub(crate) fn with_line<T>(line: &str, test: impl FnOnce(Request<'_>) -> T) -> T {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    with_request(&args, test)
}
