//! A request: its arguments, and how a client puts it on the wire.

use std::ops::Range;

use crate::decimal::{U64_DIGITS_MAX, write_digits_before};

/// Where an argument is, in bytes from the start of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgRange {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl ArgRange {
    /// `start` and `end` are at most [`REQUEST_BYTES_CEILING`](crate::ScanLimits::REQUEST_BYTES_CEILING).
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Bytes of the argument.
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the argument is the empty string.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    #[inline]
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl From<ArgRange> for Range<usize> {
    fn from(arg: ArgRange) -> Self {
        arg.range()
    }
}

/// The arguments of one request, the command's name first. Never without an argument when it comes from a
/// [`Scanner`](crate::Scanner).
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    args: &'a [ArgRange],
}

impl<'a> Request<'a> {
    /// The arguments that `args` marks in `bytes`. Asking for an argument that is not within `bytes` panics.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8], args: &'a [ArgRange]) -> Self {
        Self { bytes, args }
    }

    /// Number of arguments, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there is no argument, not even a name.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Argument `index`, 0 being the command's name. Panics when `index >= len()`.
    #[inline]
    #[must_use]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        &self.bytes[self.args[index].range()]
    }

    /// Argument `index`, or nothing when there are fewer.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.args.get(index).map(|arg| &self.bytes[arg.range()])
    }

    /// The request that begins with argument `first`. Panics when `first > len()`.
    #[inline]
    #[must_use]
    pub fn from_arg(&self, first: usize) -> Request<'a> {
        Request {
            bytes: self.bytes,
            args: &self.args[first..],
        }
    }

    /// The bytes from the start of argument `first` to the end of the last one, with whatever is between them, and where each is
    /// from the start of those bytes: equal for two requests only if these arguments are. Panics when `first >= len()`.
    #[inline]
    pub fn tail(&self, first: usize) -> (&'a [u8], impl ExactSizeIterator<Item = ArgRange> + use<'a>) {
        let args = &self.args[first..];
        let base = args[0].start;
        let end = args[args.len() - 1].end;
        // A request's arguments are in order, one after the other.
        let ranges = args.iter().map(move |arg| ArgRange {
            start: arg.start - base,
            end: arg.end - base,
        });
        (&self.bytes[base as usize..end as usize], ranges)
    }

    /// All arguments in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.args.iter().map(move |arg| &bytes[arg.range()])
    }
}

/// Appends a request as a RESP array of bulk strings, the form every client sends.
pub fn encode_request<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    write_count(out, b'*', args.len());
    for arg in args {
        let arg = arg.as_ref();
        write_count(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// As [`encode_request`], of a request that was read.
pub fn write_request(request: Request<'_>, out: &mut Vec<u8>) {
    write_count(out, b'*', request.len());
    for arg in request.iter() {
        write_count(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_count(out: &mut Vec<u8>, kind: u8, count: usize) {
    let mut digits = [0; U64_DIGITS_MAX];
    let start = write_digits_before(&mut digits, U64_DIGITS_MAX, count as u64);
    out.push(kind);
    out.extend_from_slice(&digits[start..]);
    out.extend_from_slice(b"\r\n");
}
