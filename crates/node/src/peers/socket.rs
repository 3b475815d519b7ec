//! Reading from a peer's socket, and shaking hands over it.

use super::error::PeerError;
use crate::metrics::WorkerCounters;
use std::io::ErrorKind;
use tokio::net::TcpStream;
use tollgate_cluster::wire::{Established, Frame, FrameReader, Handshake, Progress, Refusal};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that are read at once while hands are shaken.
const HELLO_READ_BYTES: usize = 4 << 10;

/// Reads what there is, once; how much that was.
///
/// # Errors
/// [`PeerError::Closed`] at the end of the stream, or the socket's.
async fn read_some(stream: &TcpStream, input: &mut Vec<u8>, most: usize) -> Result<usize, PeerError> {
    loop {
        input.reserve(most);
        match stream.try_read_buf(input) {
            Ok(0) => return Err(PeerError::Closed),
            Ok(read) => return Ok(read),
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream.readable().await?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives every frame that comes to `take`, which says whether to go on, until the connection ends. Before each it waits for `may_take`.
///
/// After each read others have their turn, so that a peer which sends without pause does not have the worker for itself.
pub async fn read_frames(
    stream: &TcpStream,
    reader: &mut FrameReader,
    counters: &WorkerCounters,
    may_take: impl AsyncFn(),
    mut take: impl FnMut(Frame<'_>) -> Result<(), PeerError>,
) -> PeerError {
    loop {
        loop {
            may_take().await;
            match reader.next_frame() {
                Ok(Some(frame)) => {
                    counters.peer_frames_in.add(1);
                    if let Err(why) = take(frame) {
                        return why;
                    }
                }
                Ok(None) => break,
                Err(_) => return PeerError::Protocol,
            }
        }
        match read_some(stream, reader.input(), READ_BYTES).await {
            Ok(read) => {
                counters.peer_bytes_in.add(read as u64);
                if read >= READ_BYTES {
                    tokio::task::yield_now().await;
                }
            }
            Err(why) => return why,
        }
    }
}

/// How a handshake fails.
#[derive(Debug)]
pub enum Failed {
    /// One of the two does not want the other.
    Refused(Refusal),
    /// The connection ended.
    Lost(PeerError),
}

/// Shakes hands; `out` is what is to be sent first.
///
/// # Errors
/// [`Failed`]. The other side has been told, as far as it took that.
pub async fn shake_hands(
    stream: &TcpStream,
    mut handshake: Handshake,
    mut out: Vec<u8>,
) -> Result<Box<Established>, Failed> {
    loop {
        write_all(stream, &out).await.map_err(Failed::Lost)?;
        out.clear();
        read_some(stream, handshake.input(), HELLO_READ_BYTES)
            .await
            .map_err(Failed::Lost)?;
        match handshake.step(&mut out) {
            Progress::More => {}
            Progress::Done(established) => {
                write_all(stream, &out).await.map_err(Failed::Lost)?;
                return Ok(established);
            }
            Progress::Refused(refusal) => {
                // It is refused whether it hears that or not.
                let _ = write_all(stream, &out).await;
                return Err(Failed::Refused(refusal));
            }
        }
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> Result<(), PeerError> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(0) => return Err(PeerError::Closed),
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
