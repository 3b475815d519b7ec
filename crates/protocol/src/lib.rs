//! RESP requests in, replies out.
//!
//! - [`Scanner`] finds the arguments of one request at a time in a read buffer: a RESP array of bulk strings, or an inline
//!   command. It allocates nothing once warm, resumes where it stopped, and holds to [`ScanLimits`].
//! - [`look_ahead`] shows what waits in a pipeline, for who wants to prepare for it.
//! - [`ReplyWriter`] appends replies to an out buffer, in RESP2 or RESP3.
//! - [`parse_integer`] and [`LongDouble`] are numbers in text as Redis reads and writes them.
//! - [`decode_reply`] and [`encode_request`] are the other side of the wire, for the command line, the load generator and tests.
//!
//! This crate knows no command, owns no socket and reads no clock.
//!
//! ```
//! use tollgate_protocol::{Progress, Proto, ReplyWriter, ScanLimits, Scanner};
//!
//! let buf = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n";
//! let mut scanner = Scanner::new(ScanLimits::default());
//! let mut out = Vec::new();
//! let mut at = 0;
//! while at < buf.len() {
//!     match scanner.next(&buf[at..])? {
//!         Progress::Request { consumed } => {
//!             let request = scanner.request(&buf[at..]);
//!             ReplyWriter::new(&mut out, Proto::Resp2).bulk(request.arg(request.len() - 1));
//!             at += consumed;
//!         }
//!         Progress::Empty { consumed } => at += consumed,
//!         Progress::Incomplete { .. } => break,
//!     }
//! }
//! assert_eq!(out, b"$2\r\nhi\r\n$4\r\nPING\r\n");
//! # Ok::<(), tollgate_protocol::ProtocolError>(())
//! ```

mod ahead;
mod decimal;
mod double;
mod error;
mod inline;
mod limits;
mod long_double;
mod reply;
mod request;
mod scan;
mod write;

pub use ahead::{Ahead, look_ahead};
pub use decimal::parse_integer;
pub use double::{DoubleText, format_double};
pub use error::ProtocolError;
pub use inline::split_words;
pub use limits::{ScanLimits, UNAUTHENTICATED_MAX_ARGS, UNAUTHENTICATED_MAX_BULK_BYTES};
pub use long_double::LongDouble;
pub use reply::{DecodeError, Reply, decode_reply};
pub use request::{ArgRange, Request, encode_request, write_request};
pub use scan::{KEPT_ARGS, KEPT_SCRATCH_BYTES, Progress, Scanner};
pub use write::{Proto, ReplyWriter};
