//! The request scanner.
//!
//! Rules, bounds and error texts are those of `processMultibulkBuffer` and `processInlineBuffer` in Redis 7.2, with two
//! differences, both on input that no client sends:
//!
//! - Redis looks for line ends with `strchr`, so a NUL byte in a line makes it wait for ever; here NUL is a byte like any other.
//! - Redis applies the bound on a line only when it finds no line end in what happens to be buffered; here the bound holds
//!   however the bytes arrive, so that the same bytes always give the same requests.
//!
//! Like Redis, the scanner does not look at the two bytes after an argument, nor at the one after a carriage return.

use memchr::memchr;

use crate::decimal::parse_integer;
use crate::error::ProtocolError;
use crate::inline::{ArgBytes, split_line};
use crate::limits::{ScanLimits, UNAUTHENTICATED_MAX_ARGS, UNAUTHENTICATED_MAX_BULK_BYTES};
use crate::request::{ArgRange, Request};

/// Room for argument positions that a scanner keeps between requests; what a larger request needed is given back.
pub const KEPT_ARGS: usize = 512;

/// Scratch space for unescaped inline arguments, in bytes, that a scanner keeps between requests.
pub const KEPT_SCRATCH_BYTES: usize = 4096;

/// What [`Scanner::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request is not whole yet.
    Incomplete {
        /// Calling again with fewer bytes than this, counted from the start of the request, finds nothing new. Always more
        /// than were given, and never more than [`max_request_bytes`](ScanLimits::max_request_bytes).
        need_at_least: usize,
    },
    /// A whole request: its arguments are [`Scanner::request`] until the next call of [`Scanner::next`].
    Request {
        /// Bytes of the request; the next one starts there.
        consumed: usize,
    },
    /// A request without arguments (`*0`, `*-1`, an empty line). Redis answers nothing, and so must the caller.
    Empty {
        /// Bytes of the request; the next one starts there.
        consumed: usize,
    },
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Before the first byte of a request.
    Start,
    /// In the line `*count`.
    ArrayHeader,
    /// In a line `$length`.
    BulkHeader,
    /// In an argument of this many bytes.
    BulkData { len: usize },
    /// In an inline command.
    Inline,
    /// A whole request was handed out.
    Done,
    /// A request was refused; there is no way on.
    Failed(ProtocolError),
}

/// Finds requests in the bytes of one connection.
///
/// A scanner remembers how far it got in an incomplete request and looks at every byte once, however many calls it takes.
/// An argument costs 8 bytes of bookkeeping while its request is scanned; nothing is reserved on a client's word.
#[derive(Debug)]
pub struct Scanner {
    limits: ScanLimits,
    authenticated: bool,
    phase: Phase,
    /// First byte that is not consumed, from the start of the request.
    pos: usize,
    /// Bytes from `pos` on that are known to hold no line end.
    searched: usize,
    /// Arguments that are still to come.
    remaining: usize,
    args: Vec<ArgRange>,
    arg_bytes: ArgBytes,
    scratch: Vec<u8>,
}

impl Scanner {
    /// A scanner for a connection that is authenticated or needs no authentication; else see
    /// [`set_authenticated`](Self::set_authenticated).
    #[must_use]
    pub fn new(limits: ScanLimits) -> Self {
        let max_request_bytes = limits.max_request_bytes.min(ScanLimits::REQUEST_BYTES_CEILING);
        Self {
            limits: ScanLimits {
                max_request_bytes,
                ..limits
            },
            authenticated: true,
            phase: Phase::Start,
            pos: 0,
            searched: 0,
            remaining: 0,
            args: Vec::new(),
            arg_bytes: ArgBytes::Buffer,
            scratch: Vec::new(),
        }
    }

    /// Says whether the connection has authenticated. While it has not, [`UNAUTHENTICATED_MAX_ARGS`] and
    /// [`UNAUTHENTICATED_MAX_BULK_BYTES`] hold as well. Counts and lengths already read stay accepted.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
    }

    /// Looks for one request at the start of `buf`, which begins with the first byte after the previous request. After
    /// [`Progress::Incomplete`], `buf` must begin with the same bytes as in the call before.
    ///
    /// # Errors
    ///
    /// When the request breaks the protocol or a bound; every later call then answers the same error.
    #[inline]
    pub fn next(&mut self, buf: &[u8]) -> Result<Progress, ProtocolError> {
        if let Phase::Done = self.phase {
            self.begin();
        }
        let window = &buf[..buf.len().min(self.limits.max_request_bytes)];
        let progress = match self.phase {
            Phase::Start | Phase::Done => match window.first() {
                Some(b'*') => self.scan_array_start(window),
                Some(_) => self.scan_inline(window),
                None => Ok(Progress::Incomplete {
                    need_at_least: buf.len() + 1,
                }),
            },
            Phase::ArrayHeader => self.scan_array_header(window),
            Phase::BulkHeader | Phase::BulkData { .. } => self.resume_array(window),
            Phase::Inline => self.scan_inline(window),
            Phase::Failed(error) => Err(error),
        };
        match progress {
            Ok(Progress::Incomplete { need_at_least }) if need_at_least > self.limits.max_request_bytes => {
                self.fail(ProtocolError::TooBigRequest)
            }
            Ok(progress) => Ok(progress),
            Err(error) => self.fail(error),
        }
    }

    /// The request that [`next`](Self::next) just found; `buf` is what it was given. Panics when `buf` is shorter than the
    /// request and an argument beyond it is asked for; without arguments when the last call did not find a request.
    #[inline]
    #[must_use]
    pub fn request<'a>(&'a self, buf: &'a [u8]) -> Request<'a> {
        let bytes = match self.arg_bytes {
            ArgBytes::Buffer => buf,
            ArgBytes::Scratch => &self.scratch,
        };
        Request::new(bytes, self.args())
    }

    /// Where the arguments of the request are that [`next`](Self::next) just found: in `buf`, or for an inline command with
    /// quotes in the scanner, which only [`request`](Self::request) tells apart. Empty when it found none.
    #[inline]
    #[must_use]
    pub fn args(&self) -> &[ArgRange] {
        match self.phase {
            Phase::Done => &self.args,
            _ => &[],
        }
    }

    /// Bytes that the scanner holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.args.capacity() * size_of::<ArgRange>() + self.scratch.capacity()
    }

    #[inline]
    fn begin(&mut self) {
        self.phase = Phase::Start;
        self.pos = 0;
        self.searched = 0;
        self.args.clear();
        if self.args.capacity() > KEPT_ARGS || !self.scratch.is_empty() {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.args.shrink_to(KEPT_ARGS);
        self.scratch.clear();
        self.scratch.shrink_to(KEPT_SCRATCH_BYTES);
    }

    #[cold]
    fn fail(&mut self, error: ProtocolError) -> Result<Progress, ProtocolError> {
        self.phase = Phase::Failed(error);
        self.args = Vec::new();
        self.scratch = Vec::new();
        Err(error)
    }

    #[inline]
    fn finish(&mut self, consumed: usize) -> Progress {
        self.phase = Phase::Done;
        if self.args.is_empty() {
            Progress::Empty { consumed }
        } else {
            Progress::Request { consumed }
        }
    }

    /// The whole of `*count\r\n` with one digit is the rule; all else goes the general way.
    #[inline]
    fn scan_array_start(&mut self, buf: &[u8]) -> Result<Progress, ProtocolError> {
        self.arg_bytes = ArgBytes::Buffer;
        if let [b'*', count @ b'1'..=b'9', b'\r', _, ..] = buf {
            let count = usize::from(count - b'0');
            // Nine is below the bound for strangers, so only the configured one is left to check.
            const { assert!(UNAUTHENTICATED_MAX_ARGS >= 9) };
            if count <= self.limits.max_args {
                return self.scan_args(buf, 4, count);
            }
        }
        self.phase = Phase::ArrayHeader;
        self.scan_array_header(buf)
    }

    #[cold]
    fn scan_array_header(&mut self, buf: &[u8]) -> Result<Progress, ProtocolError> {
        let Some(line_end) = self.find_line_end(buf, ProtocolError::TooBigMultibulkCount)? else {
            return Ok(incomplete_line(buf));
        };
        let count = parse_integer(&buf[1..line_end]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        // A negative count is an empty request.
        let count = usize::try_from(count).unwrap_or(0);
        if count > self.limits.max_args {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_MAX_ARGS && !self.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.searched = 0;
        self.scan_args(buf, line_end + 2, count)
    }

    #[cold]
    fn resume_array(&mut self, buf: &[u8]) -> Result<Progress, ProtocolError> {
        if let Phase::BulkData { len } = self.phase {
            let end = self.pos + len;
            if buf.len() < end + 2 {
                return Ok(Progress::Incomplete { need_at_least: end + 2 });
            }
            self.args.push(ArgRange::new(self.pos, end));
            return self.scan_args(buf, end + 2, self.remaining - 1);
        }
        self.scan_args(buf, self.pos, self.remaining)
    }

    /// Scans `remaining` arguments from `pos` on.
    #[inline]
    fn scan_args(&mut self, buf: &[u8], mut pos: usize, mut remaining: usize) -> Result<Progress, ProtocolError> {
        while remaining > 0 {
            let (len, header_bytes) = match buf.get(pos..) {
                Some([b'$', a @ b'0'..=b'9', b'\r', _, ..]) => (usize::from(a - b'0'), 4),
                Some([b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', _, ..]) => {
                    (usize::from(a - b'0') * 10 + usize::from(b - b'0'), 5)
                }
                Some([b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', _, ..]) => (
                    usize::from(a - b'0') * 100 + usize::from(b - b'0') * 10 + usize::from(c - b'0'),
                    6,
                ),
                _ => (usize::MAX, 0),
            };
            let start = pos + header_bytes;
            // Three digits are below the bound for strangers, so only the configured one is left to check.
            const { assert!(UNAUTHENTICATED_MAX_BULK_BYTES >= 999) };
            if len > self.limits.max_bulk_bytes.min(999) || buf.len() - start < len + 2 {
                match self.scan_bulk_slowly(buf, pos, remaining)? {
                    Bulk::Whole(arg) => {
                        self.args.push(arg);
                        pos = arg.end as usize + 2;
                    }
                    Bulk::Incomplete { need_at_least } => {
                        return Ok(Progress::Incomplete { need_at_least });
                    }
                }
            } else {
                self.args.push(ArgRange::new(start, start + len));
                pos = start + len + 2;
            }
            remaining -= 1;
        }
        Ok(self.finish(pos))
    }

    /// One argument at `pos`, by the general rules; what is known of an incomplete one is kept.
    #[cold]
    fn scan_bulk_slowly(&mut self, buf: &[u8], pos: usize, remaining: usize) -> Result<Bulk, ProtocolError> {
        if pos != self.pos {
            self.pos = pos;
            self.searched = 0;
        }
        self.remaining = remaining;
        self.phase = Phase::BulkHeader;
        let Some(line_end) = self.find_line_end(buf, ProtocolError::TooBigBulkCount)? else {
            return Ok(Bulk::Incomplete {
                need_at_least: buf.len() + 1,
            });
        };
        if buf[pos] != b'$' {
            return Err(ProtocolError::ExpectedDollar(buf[pos]));
        }
        let len = parse_integer(&buf[pos + 1..line_end]).ok_or(ProtocolError::InvalidBulkLength)?;
        let len = usize::try_from(len).map_err(|_| ProtocolError::InvalidBulkLength)?;
        if len > self.limits.max_bulk_bytes {
            return Err(ProtocolError::InvalidBulkLength);
        }
        if len > UNAUTHENTICATED_MAX_BULK_BYTES && !self.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        let start = line_end + 2;
        let need_at_least = start.saturating_add(len).saturating_add(2);
        if buf.len() < need_at_least {
            self.pos = start;
            self.searched = 0;
            self.phase = Phase::BulkData { len };
            return Ok(Bulk::Incomplete { need_at_least });
        }
        Ok(Bulk::Whole(ArgRange::new(start, start + len)))
    }

    /// The carriage return of the line at `self.pos`, once the byte after it is there too.
    fn find_line_end(&mut self, buf: &[u8], too_long: ProtocolError) -> Result<Option<usize>, ProtocolError> {
        match self.search(buf, b'\r', too_long)? {
            Some(at) if at + 1 < buf.len() => Ok(Some(at)),
            _ => Ok(None),
        }
    }

    /// The first `byte` at or after `self.pos`, searching only where no earlier call did.
    fn search(&mut self, buf: &[u8], byte: u8, too_long: ProtocolError) -> Result<Option<usize>, ProtocolError> {
        let longest = self.limits.max_inline_bytes.saturating_add(1);
        let line = &buf[self.pos..];
        let line = &line[..line.len().min(longest)];
        match memchr(byte, &line[self.searched..]) {
            Some(offset) => {
                self.searched += offset;
                Ok(Some(self.pos + self.searched))
            }
            None if line.len() == longest => Err(too_long),
            None => {
                self.searched = line.len();
                Ok(None)
            }
        }
    }

    fn scan_inline(&mut self, buf: &[u8]) -> Result<Progress, ProtocolError> {
        self.phase = Phase::Inline;
        let Some(line_feed) = self.search(buf, b'\n', ProtocolError::TooBigInlineRequest)? else {
            return Ok(incomplete_line(buf));
        };
        let line = &buf[..line_feed];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.arg_bytes = split_line(line, self.limits.max_args, &mut self.args, &mut self.scratch)?;
        Ok(self.finish(line_feed + 1))
    }
}

enum Bulk {
    Whole(ArgRange),
    Incomplete { need_at_least: usize },
}

fn incomplete_line(buf: &[u8]) -> Progress {
    Progress::Incomplete {
        need_at_least: buf.len() + 1,
    }
}
