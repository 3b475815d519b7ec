//! One client's connection: reads, turns, writes.

use crate::clients::Client;
use crate::limits::Bound;
use crate::stretch::Stretch;
use crate::turn::Turn;
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tollgate_commands::Session;
use tollgate_protocol::{Progress, ReplyWriter, Scanner};

pub use crate::turn::TurnBuffers;

/// Bytes of an unfinished request that a connection keeps room for; what a larger one needed is given back.
const KEPT_PARTIAL_BYTES: usize = 4 * 1024;

/// How long a closed connection waits for its client to close, too.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes from which a read makes a turn that may be long.
const LONG_TURN_BYTES: usize = 8 * 1024;

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The client closed it, or it broke.
    Gone,
    /// The client broke the protocol; it has been told.
    Protocol,
    /// The node wants it closed, or the client said QUIT.
    Asked,
}

/// What a connection consists of.
pub struct Connection {
    /// Its worker.
    pub worker: Rc<Worker>,
    /// Its socket.
    pub stream: TcpStream,
    /// How the other threads see it.
    pub client: Arc<Client>,
    /// What its commands have set.
    pub session: Session,
    scanner: Scanner,
    /// The start of a request whose rest has not come yet. Empty most of the time: then requests are scanned where they
    /// were read to.
    partial: Vec<u8>,
    /// What it is doing, for its worker to see.
    phase: Rc<Cell<Phase>>,
    /// Set when somebody wants the connection to end after its turn.
    leave: Rc<Cell<bool>>,
    /// Wakes the connection while it waits for requests, so that it sees that it should end.
    waker: Rc<RefCell<Option<Waker>>>,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for requests. Ending it loses nothing.
    Idle,
    /// Running commands. It must get to the end of its turn.
    Turn,
    /// Waiting for the client to take its replies. Everything has been run; ending it loses the replies.
    Writing,
}

/// Serves a connection until it ends.
pub async fn serve(
    worker: Rc<Worker>,
    stream: TcpStream,
    client: Arc<Client>,
    session: Session,
    phase: Rc<Cell<Phase>>,
    leave: Rc<Cell<bool>>,
    waker: Rc<RefCell<Option<Waker>>>,
) {
    let mut scanner = Scanner::new(worker.node.scan_limits);
    scanner.set_authenticated(session.authenticated);
    let mut connection = Connection {
        worker,
        stream,
        client,
        session,
        scanner,
        partial: Vec::new(),
        phase,
        leave,
        waker,
    };
    let end = loop {
        connection.phase.set(Phase::Idle);
        if connection.leave.get() {
            break End::Asked;
        }
        let buffers = match connection.read().await {
            Ok(buffers) => buffers,
            Err(end) => break end,
        };
        connection.phase.set(Phase::Turn);
        let full = buffers.filled == buffers.input.len();
        if let Err(end) = connection.turn(buffers).await {
            break end;
        }
        if full {
            // There is more to read at once. Others first, whatever the runtime would allow this task.
            connection.phase.set(Phase::Idle);
            tokio::task::yield_now().await;
        }
    };
    tracing::trace!(event = "connection_ended", id = connection.client.id, why = ?end);
    if !matches!(end, End::Gone) {
        connection.phase.set(Phase::Idle);
        close(connection.stream).await;
    }
}

impl Connection {
    /// Waits for bytes. Buffers are taken only when there are some, so an idle connection holds none.
    async fn read(&mut self) -> Result<Box<TurnBuffers>, End> {
        let Self {
            worker,
            stream,
            leave,
            waker,
            ..
        } = self;
        poll_fn(|cx| {
            if leave.get() {
                return Poll::Ready(Err(End::Asked));
            }
            let mut buffers = worker.take_buffers();
            let mut into = ReadBuf::new(&mut buffers.input);
            let polled = Pin::new(&mut *stream).poll_read(cx, &mut into);
            let filled = into.filled().len();
            match polled {
                Poll::Pending => {
                    worker.return_buffers(buffers);
                    *waker.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
                Poll::Ready(Ok(())) if filled > 0 => {
                    buffers.filled = filled;
                    Poll::Ready(Ok(buffers))
                }
                Poll::Ready(_) => {
                    worker.return_buffers(buffers);
                    Poll::Ready(Err(End::Gone))
                }
            }
        })
        .await
    }

    /// Runs every whole request of what was read, and writes the replies.
    async fn turn(&mut self, mut buffers: Box<TurnBuffers>) -> Result<(), End> {
        let filled = buffers.filled;
        let stretch = if filled >= LONG_TURN_BYTES {
            Stretch::long()
        } else {
            Stretch::short(Instant::now())
        };
        let started = stretch.started();
        let worker = Rc::clone(&self.worker);
        let now_us = worker.node.clock.at(started);
        // Taken out, so that the bytes can be borrowed while the turn works on the rest.
        let input = std::mem::take(&mut buffers.input);
        let mut partial = std::mem::take(&mut self.partial);
        let (end, consumed, commands) = if partial.is_empty() {
            self.run_requests(&mut buffers, &input[..filled], now_us).await
        } else {
            partial.extend_from_slice(&input[..filled]);
            self.run_requests(&mut buffers, &partial, now_us).await
        };
        if partial.is_empty() {
            partial.extend_from_slice(&input[consumed..filled]);
        } else {
            partial.drain(..consumed);
        }
        if partial.len() <= KEPT_PARTIAL_BYTES {
            partial.shrink_to(KEPT_PARTIAL_BYTES);
        }
        buffers.input = input;
        self.partial = partial;
        self.client.note(&mut self.session);
        let counters = worker.counters();
        counters.received_bytes.add(filled as u64);
        if buffers.was_alone() {
            stretch.end(counters);
        }
        self.phase.set(Phase::Writing);
        let mut written = write_ready(&worker, &self.stream, &mut buffers.out);
        // What the socket does not take at once is waited for without the buffers: a slow client holds its replies alone.
        let mut rest = match buffers.out.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut buffers.out),
        };
        worker.return_buffers(buffers);
        if written.is_ok() {
            written = write_rest(&mut self.stream, &mut rest).await;
        }
        counters.turn(commands, started.elapsed());
        written.and(end)
    }

    /// Returns how the turn ended, how many bytes it consumed and how many commands it ran.
    async fn run_requests(
        &mut self,
        buffers: &mut TurnBuffers,
        bytes: &[u8],
        now_us: u64,
    ) -> (Result<(), End>, usize, u64) {
        let mut consumed = 0;
        let mut commands = 0;
        let mut turn = Turn::new(&self.worker, buffers, self.client.id, now_us);
        let end = loop {
            let window = &bytes[consumed..];
            match self.scanner.next(window) {
                Ok(Progress::Request { consumed: length }) => {
                    let request = self.scanner.request(window);
                    commands += 1;
                    turn.run(&mut self.session, request).await;
                    consumed += length;
                    if self.session.close_after_reply {
                        break Err(End::Asked);
                    }
                    self.scanner.set_authenticated(self.session.authenticated);
                    if turn.is_large() {
                        turn.finish(&self.session).await;
                        self.phase.set(Phase::Writing);
                        if let Err(end) = write_all(&self.worker, &mut self.stream, turn.out()).await {
                            break Err(end);
                        }
                        self.phase.set(Phase::Turn);
                        turn.refresh_clock();
                    }
                }
                Ok(Progress::Empty { consumed: length }) => consumed += length,
                Ok(Progress::Incomplete { .. }) => break Ok(()),
                Err(error) => {
                    turn.finish(&self.session).await;
                    self.worker.counters().protocol_error(&error);
                    ReplyWriter::new(turn.out(), self.session.proto).protocol_error(&error);
                    break Err(End::Protocol);
                }
            }
        };
        turn.finish(&self.session).await;
        (end, consumed, commands)
    }
}

/// Closes a connection so that the client gets all its replies: a socket that is closed while requests lie unread in it is
/// reset, and what was sent last is lost. So: say that nothing more comes, then take what the client still sends, for a while.
async fn close(mut stream: TcpStream) {
    let mut sink = [0; 4096];
    let _ = stream.shutdown().await;
    // With nothing unread, as on an idle connection, there is nothing to wait for.
    if stream.try_read(&mut sink).is_err() {
        return;
    }
    let rest = async { while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {} };
    let _ = tokio::time::timeout(CLOSE_PATIENCE, rest).await;
}

/// Sends what is in `out` and empties it. Nothing more is read from the client meanwhile, so a client that does not read
/// its replies holds one turn's worth of them, and only waits for itself.
async fn write_all(worker: &Worker, stream: &mut TcpStream, out: &mut Vec<u8>) -> Result<(), End> {
    write_ready(worker, stream, out)?;
    write_rest(stream, out).await
}

/// Sends what the socket takes at once, and leaves the rest in `out`.
fn write_ready(worker: &Worker, stream: &TcpStream, out: &mut Vec<u8>) -> Result<(), End> {
    if out.is_empty() {
        return Ok(());
    }
    if out.len() > worker.node.config.limits.output_bytes {
        worker.counters().limit_hit(Bound::OutputBytes);
        return Err(End::Asked);
    }
    worker.counters().sent_bytes.add(out.len() as u64);
    match stream.try_write(out) {
        Ok(sent) if sent == out.len() => out.clear(),
        Ok(sent) => drop(out.drain(..sent)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(_) => return Err(End::Gone),
    }
    Ok(())
}

/// Sends what is left in `out`, as fast as the client takes it.
async fn write_rest(stream: &mut TcpStream, out: &mut Vec<u8>) -> Result<(), End> {
    if out.is_empty() {
        return Ok(());
    }
    let sent = stream.write_all(out).await;
    out.clear();
    sent.map_err(|_| End::Gone)
}
