//! One client's connection: reads, turns, writes.

use crate::clients::Client;
use crate::limits::Bound;
use crate::link::{Link, Phase};
use crate::stretch::Stretch;
use crate::turn::Turn;
use crate::worker::Worker;
use std::future::poll_fn;
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;
use tollgate_commands::{Face, Session};
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

/// What a connection consists of, besides what its worker sees of it.
pub struct Connection {
    worker: Rc<Worker>,
    input: OwnedReadHalf,
    link: Rc<Link>,
    /// How the other threads see it.
    client: Arc<Client>,
    /// What its commands have set.
    session: Session,
    scanner: Scanner,
    /// The start of a request whose rest has not come yet. Empty most of the time: then requests are scanned where they
    /// were read to.
    partial: Vec<u8>,
}

/// What a connection waited for.
enum Event {
    /// Requests, or a part of one.
    Read(Box<TurnBuffers>),
    /// The client did not take replies of a round at once.
    Owing,
}

/// Serves a connection until it ends.
pub async fn serve(worker: Rc<Worker>, input: OwnedReadHalf, link: Rc<Link>, client: Arc<Client>, session: Session) {
    let mut scanner = Scanner::new(worker.node.scan_limits);
    scanner.set_authenticated(session.authenticated);
    let mut connection = Connection {
        worker,
        input,
        link,
        client,
        session,
        scanner,
        partial: Vec::new(),
    };
    let end = loop {
        connection.link.phase.set(Phase::Idle);
        let buffers = match connection.next().await {
            Ok(Event::Read(buffers)) => buffers,
            Ok(Event::Owing) => match connection.settle().await {
                Ok(()) => continue,
                Err(end) => break end,
            },
            Err(end) => break end,
        };
        if let Err(end) = connection.settle().await {
            connection.worker.return_buffers(buffers);
            break end;
        }
        connection.link.phase.set(Phase::Turn);
        let full = buffers.filled == buffers.input.len();
        if let Err(end) = connection.turn(buffers).await {
            break end;
        }
        if full {
            // There is more to read at once. Others first, whatever the runtime would allow this task.
            connection.link.phase.set(Phase::Idle);
            tokio::task::yield_now().await;
        }
    };
    tracing::trace!(event = "connection_ended", id = connection.client.id, why = ?end);
    // A client may have closed its side only; if it is gone altogether, sending fails at once.
    let settled = connection.settle().await;
    if settled.is_ok() && !matches!(end, End::Gone) {
        connection.link.phase.set(Phase::Idle);
        close(connection.input, &connection.link).await;
    }
}

impl Connection {
    /// Waits for something to do. Buffers are taken only when there are bytes, so an idle connection holds none.
    async fn next(&mut self) -> Result<Event, End> {
        let Self {
            worker, input, link, ..
        } = self;
        poll_fn(|cx| {
            if link.is_broken() {
                return Poll::Ready(Err(End::Gone));
            }
            if link.should_leave() {
                return Poll::Ready(Err(End::Asked));
            }
            if link.owes() {
                return Poll::Ready(Ok(Event::Owing));
            }
            let mut buffers = worker.take_buffers();
            let mut into = ReadBuf::new(&mut buffers.input);
            let polled = Pin::new(&mut *input).poll_read(cx, &mut into);
            let filled = into.filled().len();
            match polled {
                Poll::Ready(Ok(())) if filled > 0 => {
                    buffers.filled = filled;
                    Poll::Ready(Ok(Event::Read(buffers)))
                }
                polled => {
                    worker.return_buffers(buffers);
                    if polled.is_pending() {
                        link.wait(cx);
                        return Poll::Pending;
                    }
                    Poll::Ready(Err(End::Gone))
                }
            }
        })
        .await
    }

    /// Sees to it that everything which was asked so far is answered.
    async fn settle(&mut self) -> Result<(), End> {
        if self.link.is_in_round() {
            self.worker.decide_round();
            self.link.round_left().await;
            if self.link.is_broken() {
                return Err(End::Gone);
            }
        }
        if self.link.owes() {
            self.link.phase.set(Phase::Writing);
            self.link.send(&self.link.take_owed()).await.map_err(|_| End::Gone)?;
        }
        Ok(())
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
        worker.notice_pause(worker.node.clock.at(started));
        worker.decide_overdue_round(started);
        // Taken out, so that the bytes can be borrowed while the turn works on the rest.
        let input = std::mem::take(&mut buffers.input);
        let mut partial = std::mem::take(&mut self.partial);
        let was_whole = partial.is_empty();
        let requests = match was_whole {
            true => &input[..filled],
            false => {
                partial.extend_from_slice(&input[..filled]);
                &partial[..]
            }
        };
        // Decided here and not for each command.
        let (end, consumed, commands) = match self.session.face {
            Face::Default => self.run_requests::<false>(&mut buffers, requests, stretch).await,
            Face::Redirect => self.run_requests::<true>(&mut buffers, requests, stretch).await,
        };
        if was_whole {
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
        if self.link.is_in_round() {
            // The round counts the rest. What was done so far is the scan of a few requests, too short to count as a stretch.
            worker.return_buffers(buffers);
            return end;
        }
        if let Some(stretch) = buffers.take_stretch() {
            stretch.end(counters);
        }
        let mut written = self.write_ready(&mut buffers.out);
        // What the socket does not take at once is waited for without the buffers: a slow client holds its replies alone.
        let mut rest = match buffers.out.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut buffers.out),
        };
        worker.return_buffers(buffers);
        if written.is_ok() {
            written = self.write_rest(&mut rest).await;
        }
        counters.turn(commands, started.elapsed());
        written.and(end)
    }

    /// Returns how the turn ended, how many bytes it consumed and how many commands it ran.
    async fn run_requests<const REDIRECTS: bool>(
        &mut self,
        buffers: &mut TurnBuffers,
        bytes: &[u8],
        stretch: Stretch,
    ) -> (Result<(), End>, usize, u64) {
        let mut consumed = 0;
        let mut commands = 0;
        let connection = (self.client.id, &self.link);
        let mut turn = Turn::new(&self.worker, buffers, connection, self.session.face, stretch);
        turn.may_join(bytes.len());
        let end = loop {
            let window = &bytes[consumed..];
            turn.look_ahead(&self.session, window, commands);
            match self.scanner.next(window) {
                Ok(Progress::Request { consumed: length }) => {
                    let request = self.scanner.request(window);
                    commands += 1;
                    match REDIRECTS {
                        false => turn.run(&mut self.session, request).await,
                        true => turn.run_redirecting(&mut self.session, request).await,
                    }
                    self.link.proto.set(self.session.proto);
                    consumed += length;
                    if self.session.close_after_reply {
                        break Err(End::Asked);
                    }
                    self.scanner.set_authenticated(self.session.authenticated);
                    if turn.is_large() {
                        turn.finish_muted(&self.session).await;
                        turn.finish(&self.session).await;
                        turn.broke();
                        if let Err(end) = self.write(turn.out()).await {
                            break Err(end);
                        }
                        self.link.phase.set(Phase::Turn);
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
        turn.finish_muted(&self.session).await;
        if !(end.is_ok() && turn.join_round(commands)) {
            turn.finish(&self.session).await;
        }
        (end, consumed, commands)
    }

    /// Sends what is in `out` and empties it. Nothing more is read from the client meanwhile, so a client that does not read
    /// its replies holds one turn's worth of them, and only waits for itself.
    async fn write(&self, out: &mut Vec<u8>) -> Result<(), End> {
        self.write_ready(out)?;
        self.write_rest(out).await
    }

    /// Sends what the socket takes at once, and leaves the rest in `out`.
    fn write_ready(&self, out: &mut Vec<u8>) -> Result<(), End> {
        if out.is_empty() {
            return Ok(());
        }
        if out.len() > self.worker.node.config.limits.output_bytes {
            self.worker.counters().limit_hit(Bound::OutputBytes);
            return Err(End::Asked);
        }
        self.worker.counters().sent_bytes.add(out.len() as u64);
        let sent = self.link.try_send(out).map_err(|_| End::Gone)?;
        if sent == out.len() {
            out.clear();
        } else {
            out.drain(..sent);
        }
        Ok(())
    }

    /// Sends what is left in `out`, as fast as the client takes it.
    async fn write_rest(&self, out: &mut Vec<u8>) -> Result<(), End> {
        if out.is_empty() {
            return Ok(());
        }
        self.link.phase.set(Phase::Writing);
        let sent = self.link.send(out).await;
        out.clear();
        sent.map_err(|_| End::Gone)
    }
}

/// Closes a connection so that the client gets all its replies: a socket that is closed while requests lie unread in it is
/// reset, and what was sent last is lost. So: say that nothing more comes, then take what the client still sends, for a while.
async fn close(mut input: OwnedReadHalf, link: &Link) {
    let mut sink = [0; 4096];
    let _ = socket2::SockRef::from(link.socket()).shutdown(Shutdown::Write);
    // With nothing unread, as on an idle connection, there is nothing to wait for.
    if input.try_read(&mut sink).is_err() {
        return;
    }
    let rest = async { while input.read(&mut sink).await.is_ok_and(|count| count > 0) {} };
    let _ = tokio::time::timeout(CLOSE_PATIENCE, rest).await;
}
