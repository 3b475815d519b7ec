//! What is on its way to a peer: frames that were written since the last write to its socket.

use super::error::PeerError;
use crate::limits::Bound;
use crate::metrics::WorkerCounters;
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tollgate_cluster::wire::{FrameError, FrameWriter, Message, MessageError, write_message};

/// A buffer that is larger than this is given back once it is sent.
const KEPT_BYTES: usize = 1 << 20;

/// The way to a peer. What is pushed in one loop turn is sent in one write.
#[derive(Debug)]
pub struct Sending {
    /// The version of the protocol that both sides speak.
    pub version: u16,
    writer: RefCell<FrameWriter>,
    /// Frames that no write has taken yet.
    out: RefCell<Vec<u8>>,
    /// What is left of those that one has.
    under_way: Cell<usize>,
    queue_bytes: usize,
    filled: Notify,
    over: Cell<Option<PeerError>>,
}

impl Sending {
    pub fn new(version: u16, writer: FrameWriter, queue_bytes: usize) -> Self {
        Self {
            version,
            writer: RefCell::new(writer),
            out: RefCell::default(),
            under_way: Cell::new(0),
            queue_bytes,
            filled: Notify::new(),
            over: Cell::new(None),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`PeerError::Full`] if too much waits already, [`PeerError::TooLong`], or why the connection is over.
    pub fn push<'a, M: Message<'a>>(&self, id: u64, message: &M, counters: &WorkerCounters) -> Result<(), PeerError> {
        self.push_with(counters, |writer, out| {
            write_message(writer, self.version, id, message, out).map_err(|error| match error {
                MessageError::Codec(_) | MessageError::Frame(_) => PeerError::TooLong,
            })
        })
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// As [`Sending::push`].
    pub fn push_body(&self, kind: u8, id: u64, body: &[u8], counters: &WorkerCounters) -> Result<(), PeerError> {
        self.push_with(counters, |writer, out| {
            writer
                .write_body(out, kind, id, body)
                .map_err(|_: FrameError| PeerError::TooLong)
        })
    }

    fn push_with(
        &self,
        counters: &WorkerCounters,
        write: impl FnOnce(&mut FrameWriter, &mut Vec<u8>) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        if let Some(why) = self.over.get() {
            return Err(why);
        }
        let mut out = self.out.borrow_mut();
        // A frame that is begun is written whole, so the bound may be passed by one.
        if out.len() + self.under_way.get() >= self.queue_bytes {
            counters.limit_hit(Bound::PeerQueueBytes);
            return Err(PeerError::Full(Bound::PeerQueueBytes));
        }
        let was_empty = out.is_empty();
        write(&mut self.writer.borrow_mut(), &mut out)?;
        counters.peer_frames_out.add(1);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Ends it: nothing more is sent.
    pub fn end(&self, why: PeerError) {
        self.over.set(Some(self.over.get().unwrap_or(why)));
        self.filled.notify_one();
    }

    /// Writes what is pushed, until that fails or somebody ends it.
    pub async fn run(&self, stream: &TcpStream, counters: &WorkerCounters) -> PeerError {
        let mut taken = Vec::new();
        loop {
            if let Some(why) = self.over.get() {
                return why;
            }
            std::mem::swap(&mut taken, &mut self.out.borrow_mut());
            if taken.is_empty() {
                self.filled.notified().await;
                continue;
            }
            if let Err(error) = self.write(stream, &taken, counters).await {
                return error.into();
            }
            taken.clear();
            if taken.capacity() > KEPT_BYTES {
                taken = Vec::new();
            }
        }
    }

    async fn write(&self, stream: &TcpStream, mut bytes: &[u8], counters: &WorkerCounters) -> std::io::Result<()> {
        while !bytes.is_empty() {
            self.under_way.set(bytes.len());
            match stream.try_write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    counters.peer_bytes_out.add(sent as u64);
                    bytes = &bytes[sent..];
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => stream.writable().await?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.under_way.set(0);
        Ok(())
    }
}
