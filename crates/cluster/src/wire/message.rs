//! What nodes say to each other.
//!
//! To add a message: a line in the table of kinds, a struct with `Serialize` and `Deserialize`, its `impl Message`, and its golden frame
//! (tests/peer_v1.rs writes it when it is missing and told to). Its fields never change; later versions add some at the end.

use super::codec::{self, CodecError};
use super::frame::{FrameError, FrameWriter};
use crate::Epoch;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use thiserror::Error;

macro_rules! kinds {
    ($($(#[doc = $meaning:literal])+ $number:literal $kind:ident $label:literal;)*) => {
        /// Which message a frame has. Numbers are never used again for something else.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[doc = $meaning])+ $kind = $number,)*
        }

        impl Kind {
            /// All kinds, by number.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// The kind of a number, if this version knows it.
            pub const fn of(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Kind::$kind),)*
                    _ => None,
                }
            }

            /// Its name in logs and metrics.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Kind::$kind => $label,)*
                }
            }
        }
    };
}

kinds! {
    /// The answer to a request of a kind that the other side does not know, or a body that it cannot read. It has no body.
    0 NotUnderstood "not_understood";
    /// Commands to run: [`Forward`].
    1 Forward "forward";
    /// What they came to: [`Replies`].
    2 Replies "replies";
    /// Messages between the slot machines of two workers: [`super::SlotMessages`].
    3 Slot "slot";
    /// Is anybody there: [`Probe`].
    4 Probe "probe";
    /// Yes: [`Pong`].
    5 Pong "pong";
    /// A step of a command over all keys: [`Keyspace`](super::Keyspace).
    16 Keyspace "keyspace";
    /// What it came to: [`KeyspaceDone`](super::KeyspaceDone).
    17 KeyspaceDone "keyspace_done";
    /// A message for listeners: [`Publish`](super::Publish).
    18 Publish "publish";
    /// How many got it: [`Published`](super::Published).
    19 Published "published";
    /// Who listens: [`Listeners`](super::Listeners).
    20 Listeners "listeners";
    /// Those who do: [`Listening`](super::Listening).
    21 Listening "listening";
    /// About scripts: [`Scripts`](super::Scripts).
    22 Scripts "scripts";
    /// What that came to: [`ScriptsAnswer`](super::ScriptsAnswer).
    23 ScriptsAnswer "scripts_answer";
    /// About libraries of functions: [`Libraries`](super::Libraries).
    24 Libraries "libraries";
    /// What is newer of them: [`LibrariesAnswer`](super::LibrariesAnswer).
    25 LibrariesAnswer "libraries_answer";
    /// Keys for a run: [`Lend`](super::Lend).
    48 Lend "lend";
    /// What came of that: [`Lent`](super::Lent).
    49 Lent "lent";
    /// They come back: [`GiveBack`](super::GiveBack).
    50 GiveBack "give_back";
    /// Whether they were taken: [`GivenBack`](super::GivenBack).
    51 GivenBack "given_back";
    /// Whether keys change: [`Watch`](super::Watch).
    52 Watch "watch";
    /// When keys may have something: [`Await`](super::Await).
    53 Await "await";
    /// The answer to those: [`Noted`](super::Noted).
    54 Noted "noted";
    /// Now one may: [`Called`](super::Called).
    55 Called "called";
    /// How are you: [`AskStatus`](super::AskStatus).
    40 AskStatus "ask_status";
    /// So: [`NodeStatus`](super::NodeStatus).
    41 Status "status";
    /// Give your slots away, or come back: [`Drain`](super::Drain).
    42 Drain "drain";
    /// That has begun: [`DrainBegun`](super::DrainBegun).
    43 DrainBegun "drain_begun";
}

/// A message that has a kind.
pub trait Message<'a>: Serialize + Deserialize<'a> {
    /// Its kind.
    const KIND: Kind;

    /// Appends the fields that versions after 1 have added, up to `version`, in their order.
    ///
    /// # Errors
    /// [`CodecError::Unwritable`].
    fn write_added(&self, _version: u16, _out: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(())
    }

    /// Reads them from what follows the fields of version 1. Those that `version` does not have keep what [`Deserialize`] gave them, with
    /// `#[serde(skip)]` their defaults.
    ///
    /// # Errors
    /// [`CodecError`].
    fn read_added(&mut self, _version: u16, _added: &'a [u8]) -> Result<(), CodecError> {
        Ok(())
    }
}

/// Why a message was not written.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MessageError {
    /// It has no form as bytes.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// It is longer than the other side takes.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Appends a message as a frame, in that version of the protocol.
///
/// # Errors
/// [`MessageError`]; then `out` is as before.
pub fn write_message<'a, M: Message<'a>>(
    writer: &mut FrameWriter,
    version: u16,
    id: u64,
    message: &M,
    out: &mut Vec<u8>,
) -> Result<(), MessageError> {
    writer.write(out, M::KIND as u8, id, |out| {
        codec::encode(message, out)?;
        Ok(message.write_added(version, out)?)
    })
}

/// Reads the body of a message, in that version of the protocol. What is behind its last field was added by versions that are not spoken,
/// and is ignored.
///
/// # Errors
/// [`CodecError`].
pub fn read_message<'a, M: Message<'a>>(version: u16, body: &'a [u8]) -> Result<M, CodecError> {
    let (mut message, read) = codec::decode::<M>(body)?;
    message.read_added(version, body.get(read..).unwrap_or_default())?;
    Ok(message)
}

/// Commands for a worker to run, with keys of its slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward<'a> {
    /// Which of the sender's connections they come from. Those of one lane run in the order in which they were sent.
    pub lane: u64,
    /// The commands as RESP requests, one after the other.
    #[serde(borrow, with = "codec::bytes")]
    pub commands: &'a [u8],
    /// What there is to know of them, run by run.
    pub runs: Cow<'a, [Run]>,
    /// The holder of their slots, for which the receiver stands in as its heir because it does not answer.
    pub stand_in_for: Option<&'a str>,
}

/// Commands in a row that have these in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// How many.
    pub commands: u32,
    /// For which database.
    pub db: u8,
    /// The version of RESP that the replies are to be in: 2 or 3.
    pub resp: u8,
}

impl<'a> Message<'a> for Forward<'a> {
    const KIND: Kind = Kind::Forward;
}

/// What forwarded commands came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replies<'a> {
    /// All replies, one after the other.
    #[serde(borrow, with = "codec::bytes")]
    pub bytes: &'a [u8],
    /// Where each ends. A command that was not answered has a reply of no bytes.
    pub ends: Cow<'a, [u32]>,
    /// The commands that were not answered, by ascending index; mostly none.
    pub not_answered: Vec<NotAnswered<'a>>,
}

/// A command that had no effect and got no reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAnswered<'a> {
    /// Which.
    pub index: u32,
    /// Why.
    #[serde(borrow)]
    pub why: Why<'a>,
}

/// Why a command was not answered. Variants are only added at the end, and only sent to versions that know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why<'a> {
    /// Its slot is elsewhere.
    Moved {
        /// The slot.
        slot: u16,
        /// Where it is.
        #[serde(borrow)]
        holder: Holder<'a>,
    },
    /// Its slot is not here, and this worker knows nothing better than the sender.
    NotHere {
        /// The slot.
        slot: u16,
    },
}

/// Who holds a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder<'a> {
    /// Since when, in changes of hands.
    pub epoch: Epoch,
    /// Its name.
    pub name: &'a str,
}

impl<'a> Message<'a> for Replies<'a> {
    const KIND: Kind = Kind::Replies;
}

/// Asks whether a peer answers, and tells it which view this node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The hash of the sender's view.
    pub view: u64,
    /// What version 2 adds, in tests.
    #[cfg(any(test, feature = "next-version"))]
    #[serde(skip)]
    pub note: Option<u32>,
}

impl Probe {
    /// A probe from a node with that view.
    pub fn new(view: u64) -> Self {
        Self {
            view,
            #[cfg(any(test, feature = "next-version"))]
            note: Some(view as u32),
        }
    }
}

impl Message<'_> for Probe {
    const KIND: Kind = Kind::Probe;

    #[cfg(any(test, feature = "next-version"))]
    fn write_added(&self, version: u16, out: &mut Vec<u8>) -> Result<(), CodecError> {
        match version {
            ..2 => Ok(()),
            2.. => codec::encode(&self.note, out),
        }
    }

    #[cfg(any(test, feature = "next-version"))]
    fn read_added(&mut self, version: u16, added: &[u8]) -> Result<(), CodecError> {
        if version >= 2 {
            (self.note, _) = codec::decode(added)?;
        }
        Ok(())
    }
}

/// Answers a [`Probe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// The hash of the sender's view.
    pub view: u64,
}

impl Message<'_> for Pong {
    const KIND: Kind = Kind::Pong;
}

#[cfg(test)]
mod tests {
    use super::super::FrameReader;
    use super::*;

    #[test]
    fn kinds_have_numbers_and_names_of_their_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(*kind as u8), Some(*kind));
        }
        let known = (0..=u8::MAX).filter_map(Kind::of).count();
        assert_eq!(known, Kind::ALL.len());
        let labels: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.label()).collect();
        assert_eq!(labels.len(), known);
    }

    fn body_of<'a, M: Message<'a>>(version: u16, message: &M) -> Vec<u8> {
        let mut out = Vec::new();
        write_message(&mut FrameWriter::new(1 << 20), version, 7, message, &mut out).unwrap();
        let mut reader = FrameReader::new(1 << 20);
        reader.input().extend_from_slice(&out);
        let frame = reader.next_frame().unwrap().unwrap();
        assert_eq!((frame.kind, frame.id), (M::KIND as u8, 7));
        frame.body.to_vec()
    }

    #[test]
    fn a_field_of_version_2_travels_in_version_2_alone() {
        let probe = Probe::new(0x1_0000_0005);
        let (first, second) = (body_of(1, &probe), body_of(2, &probe));
        assert!(second.starts_with(&first) && second.len() > first.len());
        // Both speak 2.
        assert_eq!(read_message::<Probe>(2, &second), Ok(probe));
        // One speaks 1, so both do: the newer writes and reads as the older.
        assert_eq!(read_message::<Probe>(1, &first), Ok(Probe { note: None, ..probe }));
        // And what a version has added does not disturb who does not know it.
        assert_eq!(read_message::<Probe>(1, &second), Ok(Probe { note: None, ..probe }));
        // A field that should be there and is not is an error.
        assert!(read_message::<Probe>(2, &first).is_err());
    }

    #[test]
    fn a_message_that_is_too_long_leaves_no_trace() {
        let forward = Forward {
            lane: 0,
            commands: &[0; 100],
            runs: Cow::Borrowed(&[]),
            stand_in_for: None,
        };
        let mut out = b"before".to_vec();
        let error = write_message(&mut FrameWriter::new(100), 1, 1, &forward, &mut out).unwrap_err();
        assert!(matches!(
            error,
            MessageError::Frame(FrameError::TooLong { max_bytes: 100, .. })
        ));
        assert_eq!(out, b"before");
    }
}
