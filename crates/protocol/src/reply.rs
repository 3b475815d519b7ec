//! Replies as a client reads them, over redis-protocol's decoder.

use bytes::{Bytes, BytesMut};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2::decode as resp2;
use redis_protocol::resp2::types::RangeFrame as Resp2Frame;
use redis_protocol::resp3::decode::complete as resp3;
use redis_protocol::resp3::types::RangeFrame as Resp3Frame;

use crate::write::Proto;

/// A reply of either protocol. Payloads are views into the buffer that was decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A simple string, such as `OK`.
    Simple(Bytes),
    /// An error, its code first.
    Error(Bytes),
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(Bytes),
    /// No value, also where an array was due.
    Null,
    /// An array.
    Array(Vec<Reply>),
    /// A RESP3 map, in the order sent.
    Map(Vec<(Reply, Reply)>),
    /// A RESP3 set, in the order sent.
    Set(Vec<Reply>),
    /// A RESP3 double.
    Double(f64),
    /// A RESP3 boolean.
    Bool(bool),
    /// A RESP3 message that answers no request.
    Push(Vec<Reply>),
    /// RESP3 verbatim text, without its format.
    Verbatim(Bytes),
    /// A RESP3 big number's digits.
    BigNumber(Bytes),
}

/// Bytes that are no reply.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not RESP.
    #[error("not a reply: {0}")]
    Malformed(#[from] RedisProtocolError),
    /// RESP3, but a kind that Redis servers do not send: streamed parts or `HELLO`.
    #[error("a reply of a kind that servers do not send: {0}")]
    UnexpectedKind(&'static str),
}

/// Takes one reply off the front of `buf`, or nothing when it is not whole yet. Attributes are dropped.
///
/// For replies of a server that is trusted: redis-protocol recurses once a level of nesting, and reads an incomplete reply
/// from its start again on every call.
///
/// # Errors
///
/// When `buf` does not start with a reply. What follows cannot be made sense of: close the connection.
pub fn decode_reply(buf: &mut BytesMut, proto: Proto) -> Result<Option<Reply>, DecodeError> {
    if buf.is_empty() {
        return Ok(None);
    }
    match proto {
        Proto::Resp2 => {
            let Some((frame, len)) = resp2::decode_range(buf)? else {
                return Ok(None);
            };
            Ok(Some(from_resp2(&buf.split_to(len).freeze(), frame)))
        }
        Proto::Resp3 => {
            let Some((frame, len)) = resp3::decode_range(buf)? else {
                return Ok(None);
            };
            Ok(Some(from_resp3(&buf.split_to(len).freeze(), frame)?))
        }
    }
}

fn from_resp2(bytes: &Bytes, frame: Resp2Frame) -> Reply {
    match frame {
        Resp2Frame::SimpleString((start, end)) => Reply::Simple(bytes.slice(start..end)),
        Resp2Frame::Error((start, end)) => Reply::Error(bytes.slice(start..end)),
        Resp2Frame::Integer(value) => Reply::Int(value),
        Resp2Frame::BulkString((start, end)) => Reply::Bulk(bytes.slice(start..end)),
        Resp2Frame::Array(frames) => Reply::Array(frames.into_iter().map(|frame| from_resp2(bytes, frame)).collect()),
        Resp2Frame::Null => Reply::Null,
    }
}

fn from_resp3(bytes: &Bytes, frame: Resp3Frame) -> Result<Reply, DecodeError> {
    let view = |(start, end): (usize, usize)| bytes.slice(start..end);
    let all = |frames: Vec<Resp3Frame>| -> Result<Vec<Reply>, DecodeError> {
        frames.into_iter().map(|frame| from_resp3(bytes, frame)).collect()
    };
    Ok(match frame {
        Resp3Frame::SimpleString { data, .. } => Reply::Simple(view(data)),
        Resp3Frame::SimpleError { data, .. } | Resp3Frame::BlobError { data, .. } => Reply::Error(view(data)),
        Resp3Frame::Number { data, .. } => Reply::Int(data),
        Resp3Frame::BlobString { data, .. } => Reply::Bulk(view(data)),
        Resp3Frame::Null => Reply::Null,
        Resp3Frame::Double { data, .. } => Reply::Double(data),
        Resp3Frame::Boolean { data, .. } => Reply::Bool(data),
        Resp3Frame::VerbatimString { data, .. } => Reply::Verbatim(view(data)),
        Resp3Frame::BigNumber { data, .. } => Reply::BigNumber(view(data)),
        Resp3Frame::Array { data, .. } => Reply::Array(all(data)?),
        Resp3Frame::Push { data, .. } => Reply::Push(all(data)?),
        Resp3Frame::Set { data, .. } => Reply::Set(all(data.into_iter().collect())?),
        Resp3Frame::Map { data, .. } => Reply::Map(
            // redis-protocol builds its map from the last pair to the first.
            data.into_iter()
                .rev()
                .map(|(key, value)| Ok((from_resp3(bytes, key)?, from_resp3(bytes, value)?)))
                .collect::<Result<_, DecodeError>>()?,
        ),
        Resp3Frame::Hello { .. } => return Err(DecodeError::UnexpectedKind("HELLO")),
        Resp3Frame::ChunkedString(_) => return Err(DecodeError::UnexpectedKind("a streamed part")),
    })
}
