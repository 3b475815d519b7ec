//! How nodes talk: bytes in, messages out, and the other way round. No socket, no clock, no randomness of its own.
//!
//! A connection begins with a [`Handshake`], which says who is there and which version of the protocol both speak, and with a cluster
//! secret proves that both know it and agrees on keys. Then [frames](FrameReader) go both ways, sealed if there is a secret. A frame is a
//! [`Kind`], a number that ties an answer to its request, and a body: a [`Message`] of that kind, written by [`codec`].
//!
//! # Versions
//!
//! Two nodes speak the highest version that both know. A message changes only by fields at its end:
//! [`Message::write_added`] and [`Message::read_added`] write and read what came after version 1, by the version that is spoken, so that
//! a node writes to an older one exactly what that expects. What a reader does not know at the end of a body it ignores. A frame of a
//! kind that a reader does not know is counted and answered with [`Kind::NotUnderstood`] if it wants an answer, and is otherwise ignored:
//! the connection stays. The golden frames in tests/data say what version 1 is.

pub mod codec;
mod frame;
mod gossip;
mod handshake;
mod hello;
mod interest;
mod keys;
mod keyspace;
mod lend;
mod libraries;
mod message;
mod operate;
mod pubsub;
mod scripts;
mod slot;

pub use frame::{FRAME_BYTES_MAX, Frame, FrameError, FrameReader, FrameWriter, HEADER_BYTES, SEAL_BYTES};
pub use gossip::{GossipRefusal, Sealer, TIME_WINDOW};
pub use handshake::{Established, Handshake, Progress};
pub use hello::{HELLO_BYTES_MAX, Hello, Local, NONCE_BYTES, Refusal, Versions};
pub use interest::{Await, AwaitAct, Called, Noted, Outcome, Watch, WatchAct};
pub use keys::Secret;
pub use keyspace::{Keyspace, KeyspaceDone, KeyspaceOutcome, KeyspaceStep, ScanPlace};
pub use lend::{GiveBack, GivenBack, Lend, Lent, LentOutcome, Part, Piece, Wanted, Within};
pub use libraries::{Libraries, LibrariesAnswer, LibraryChange, LibraryVersion};
pub use message::{
    Forward, Holder, Kind, Message, MessageError, NotAnswered, Pong, Probe, Replies, Run, Why, read_message,
    write_message,
};
pub use operate::{AskStatus, Drain, DrainBegun, NodeStatus, Trouble};
pub use pubsub::{Listeners, ListenersOf, Listening, Publish, Published};
pub use scripts::{Scripts, ScriptsAnswer, ScriptsAsk, ScriptsTold};
pub use slot::{SlotMessages, append_slot_message};
