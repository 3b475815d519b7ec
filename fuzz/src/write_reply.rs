//! The reply writer against any program of replies: what is written reads back as what was meant, in both protocols, and every
//! cut of it reads as incomplete.

use bytes::{Bytes, BytesMut};
use tollgate_protocol::{Proto, Reply, ReplyWriter, decode_reply};

/// Levels of aggregates within aggregates.
const DEPTH_MAX: usize = 4;
/// Elements of an aggregate.
const ELEMENTS_MAX: usize = 12;

/// The target's body: the bytes choose the replies.
pub fn run(data: &[u8]) {
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut source = Source { data };
        let mut out = Vec::new();
        let mut meant = Vec::new();
        let mut ends = Vec::new();
        while !source.data.is_empty() {
            let mut writer = ReplyWriter::new(&mut out, proto);
            meant.push(write_any(&mut source, &mut writer, DEPTH_MAX));
            ends.push(out.len());
        }
        assert_cuts_are_incomplete(&out[..ends.first().copied().unwrap_or(0)], proto);

        let mut wire = BytesMut::from(&out[..]);
        for (reply, end) in meant.iter().zip(ends) {
            let decoded = decode_reply(&mut wire, proto).expect("well-formed").expect("whole");
            // As text, so that NaN equals itself.
            assert_eq!(format!("{decoded:?}"), format!("{reply:?}"));
            assert_eq!(wire.len(), out.len() - end);
        }
    }
}

fn assert_cuts_are_incomplete(reply: &[u8], proto: Proto) {
    /// Beyond, only the last cuts are tried: each reads the reply from its start.
    const CUTS_MAX: usize = 200;
    for cut in reply.len().saturating_sub(CUTS_MAX)..reply.len() {
        let mut wire = BytesMut::from(&reply[..cut]);
        let decoded = decode_reply(&mut wire, proto).expect("well-formed so far");
        assert_eq!(decoded, None);
        assert_eq!(wire.len(), cut);
    }
}

/// Choices, taken from the front of the data; zeros once it is used up.
struct Source<'a> {
    data: &'a [u8],
}

impl<'a> Source<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.data.split_first() else {
            return 0;
        };
        self.data = rest;
        *first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn word(&mut self) -> [u8; 8] {
        std::array::from_fn(|_| self.byte())
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.data.len());
        let (bytes, rest) = self.data.split_at(len);
        self.data = rest;
        bytes
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// Integers of every length, not only long ones.
    fn int(&mut self) -> i64 {
        let shift = self.byte() % 64;
        i64::from_le_bytes(self.word()) >> shift
    }
}

/// Writes a reply and returns what a client must see.
fn write_any(source: &mut Source<'_>, writer: &mut ReplyWriter<'_>, depth: usize) -> Reply {
    let resp3 = writer.proto() == Proto::Resp3;
    match source.below(if depth == 0 { 12 } else { 16 }) {
        0 => {
            let value = source.int();
            writer.int(value);
            Reply::Int(value)
        }
        1 => write_bulk(source.bytes(), writer),
        2 => {
            let text = source.text();
            writer.simple(&text);
            Reply::Simple(one_line(&text))
        }
        3 => {
            let (code, text) = ("WRONGTYPE", source.text());
            writer.error(code, &text);
            let text = text.trim_matches(['\r', '\n']);
            Reply::Error(match text {
                "" => one_line(code),
                text => one_line(&format!("{code} {text}")),
            })
        }
        4 => {
            let value = source.int();
            writer.bulk_int(value);
            Reply::Bulk(value.to_string().into())
        }
        5 => {
            writer.null();
            Reply::Null
        }
        6 => {
            writer.null_array();
            Reply::Null
        }
        7 => {
            let value = source.byte() & 1 == 1;
            writer.bool(value);
            if resp3 {
                Reply::Bool(value)
            } else {
                Reply::Int(value.into())
            }
        }
        8 => write_double(f64::from_le_bytes(source.word()), writer),
        9 => {
            let text = source.bytes();
            writer.verbatim(text);
            let text = Bytes::copy_from_slice(text);
            if resp3 {
                Reply::Verbatim(text)
            } else {
                Reply::Bulk(text)
            }
        }
        10 => {
            let digits = format!("{}{}", source.int(), source.int().unsigned_abs());
            writer.big_number(digits.as_bytes());
            if resp3 {
                Reply::BigNumber(digits.into())
            } else {
                Reply::Bulk(digits.into())
            }
        }
        11 => {
            writer.ok();
            Reply::Simple(Bytes::from_static(b"OK"))
        }
        aggregate => write_aggregate(aggregate, source, writer, depth - 1),
    }
}

fn write_aggregate(kind: usize, source: &mut Source<'_>, writer: &mut ReplyWriter<'_>, depth: usize) -> Reply {
    let resp3 = writer.proto() == Proto::Resp3;
    let len = source.below(ELEMENTS_MAX);
    let mut elements =
        |writer: &mut ReplyWriter<'_>| -> Vec<Reply> { (0..len).map(|_| write_any(source, writer, depth)).collect() };
    match kind {
        12 => {
            writer.array(len);
            Reply::Array(elements(writer))
        }
        13 => {
            writer.push(len);
            let elements = elements(writer);
            if resp3 {
                Reply::Push(elements)
            } else {
                Reply::Array(elements)
            }
        }
        14 => {
            // Numbers differ, as a set's members do.
            writer.set(len);
            let members = (0..len).map(|member| write_bulk(&[member as u8], writer)).collect();
            if resp3 {
                Reply::Set(members)
            } else {
                Reply::Array(members)
            }
        }
        _ => {
            writer.map(len);
            let pairs: Vec<(Reply, Reply)> = (0..len)
                .map(|key| {
                    let key = write_bulk(&[key as u8], writer);
                    (key, write_any(source, writer, depth))
                })
                .collect();
            if resp3 {
                Reply::Map(pairs)
            } else {
                Reply::Array(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect())
            }
        }
    }
}

fn write_bulk(data: &[u8], writer: &mut ReplyWriter<'_>) -> Reply {
    writer.bulk(data);
    Reply::Bulk(Bytes::copy_from_slice(data))
}

fn write_double(value: f64, writer: &mut ReplyWriter<'_>) -> Reply {
    let start = writer.position();
    writer.double(value);
    match writer.proto() {
        Proto::Resp3 => Reply::Double(value),
        Proto::Resp2 => {
            // The text is right when it reads back as the number; what it looks like is tested where it is made.
            let mut copy = Vec::new();
            ReplyWriter::new(&mut copy, Proto::Resp3).double(value);
            let text = copy[1..copy.len() - 2].to_vec();
            let read: f64 = String::from_utf8_lossy(&text).parse().expect("a number");
            assert!(read.to_bits() == value.to_bits() || read.is_nan() && value.is_nan());
            assert!(writer.position() > start + text.len());
            Reply::Bulk(text.into())
        }
    }
}

fn one_line(text: &str) -> Bytes {
    text.replace(['\r', '\n'], " ").into()
}
