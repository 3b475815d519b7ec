//! What the rest of a worker sees of a connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::{Context, Poll, Waker};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tollgate_protocol::Proto;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for requests. Ending it loses nothing: the replies of a round are sent all the same.
    Idle,
    /// Running commands. It must get to the end of its turn.
    Turn,
    /// Waiting for the client to take its replies. Ending it loses those, but nothing that was begun is left half done.
    Writing,
}

/// The part of a connection that its task shares with its worker: what it is doing, and the way to its client.
#[derive(Debug)]
pub struct Link {
    /// What it is doing.
    pub phase: Cell<Phase>,
    /// Whether it should end after its turn.
    leave: Cell<bool>,
    /// Whether that is so because it was killed: then it runs nothing more.
    killed: Cell<bool>,
    /// Whether its last turn waits in the worker's round, or is run there.
    in_round: Cell<bool>,
    /// Whether the task waits for the end of that.
    awaits_round: Cell<bool>,
    /// Whether a reply could not be sent.
    broken: Cell<bool>,
    /// The protocol that its client reads.
    pub proto: Cell<Proto>,
    /// Replies of a round that the client did not take at once, and messages. The task sends them before it does anything else.
    owed: RefCell<Vec<u8>>,
    /// Wakes the task while it waits for requests.
    waker: RefCell<Option<Waker>>,
    out: OwnedWriteHalf,
}

impl Link {
    /// The link of a new connection.
    pub fn new(out: OwnedWriteHalf) -> Self {
        Self {
            phase: Cell::new(Phase::Idle),
            proto: Cell::default(),
            leave: Cell::new(false),
            killed: Cell::new(false),
            in_round: Cell::new(false),
            awaits_round: Cell::new(false),
            broken: Cell::new(false),
            owed: RefCell::default(),
            waker: RefCell::default(),
            out,
        }
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        self.out.as_ref()
    }

    /// Asks the task to end after its turn.
    pub fn ask_to_leave(&self) {
        self.leave.set(true);
        self.wake();
    }

    /// As [`Link::ask_to_leave`], of one that is to run nothing more.
    pub fn kill(&self) {
        self.killed.set(true);
        if self.is_in_round() {
            // Whatever is being sent to it there ends.
            self.shut_down();
        }
        self.ask_to_leave();
    }

    fn shut_down(&self) {
        let _ = socket2::SockRef::from(self.socket()).shutdown(std::net::Shutdown::Both);
    }

    /// Whether it is to run nothing more.
    pub fn is_killed(&self) -> bool {
        self.killed.get()
    }

    /// Whether it should end.
    pub fn should_leave(&self) -> bool {
        self.leave.get()
    }

    /// Notes who is to be woken.
    pub fn wait(&self, cx: &Context<'_>) {
        match &mut *self.waker.borrow_mut() {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Whether the last turn waits in the worker's round, or is run there.
    pub fn is_in_round(&self) -> bool {
        self.in_round.get()
    }

    /// Notes that they do.
    pub fn enter_round(&self) {
        self.in_round.set(true);
    }

    /// Waits until it does not any more.
    pub async fn round_left(&self) {
        poll_fn(|cx| match self.in_round.get() {
            true => {
                self.awaits_round.set(true);
                self.wait(cx);
                Poll::Pending
            }
            false => Poll::Ready(()),
        })
        .await;
    }

    fn left_round(&self) {
        self.in_round.set(false);
        if self.awaits_round.replace(false) {
            self.wake();
        }
    }

    /// Ends what it is in the round for without an answer: the client is given up.
    pub fn give_up(&self) {
        self.broken.set(true);
        self.shut_down();
        self.left_round();
        self.wake();
    }

    /// Sends replies of a turn that stays in the round, after the messages that came before them.
    ///
    /// # Errors
    /// The socket's.
    pub async fn send_in_round(&self, bytes: &[u8]) -> std::io::Result<()> {
        let owed = self.take_owed();
        self.send(&owed).await?;
        self.send(bytes).await
    }

    /// Sends the replies of a round; what the client does not take at once is owed.
    pub fn leave_round(&self, replies: &[u8]) {
        self.left_round();
        if self.owes() {
            // Messages came meanwhile; what is sent in parts must stay together.
            self.owed.borrow_mut().extend_from_slice(replies);
            return self.wake();
        }
        let Ok(sent) = self.try_send(replies) else {
            self.broken.set(true);
            return self.wake();
        };
        if sent < replies.len() {
            self.owed.borrow_mut().extend_from_slice(&replies[sent..]);
            self.wake();
        }
    }

    /// Sends a message that answers nothing, after what is being sent now. A client that has not taken `owed_max` bytes of such yet is
    /// given up: `false`.
    pub fn push(&self, message: &[u8], owed_max: usize) -> bool {
        let mut owed = self.owed.borrow_mut();
        if owed.len() + message.len() > owed_max {
            owed.clear();
            self.broken.set(true);
            // Its task may be waiting for the client to take something: now that fails.
            self.shut_down();
        } else {
            owed.extend_from_slice(message);
        }
        drop(owed);
        self.wake();
        !self.broken.get()
    }

    /// Whether a reply could not be sent, so that there is no point in going on.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Whether replies of a round are owed.
    pub fn owes(&self) -> bool {
        !self.owed.borrow().is_empty()
    }

    /// Takes them.
    pub fn take_owed(&self) -> Vec<u8> {
        self.owed.take()
    }

    /// Sends as much as the socket takes at once, and says how much that was.
    ///
    /// # Errors
    /// The socket's.
    pub fn try_send(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.out.try_write(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            sent => sent,
        }
    }

    /// Sends bytes, waiting for the client as long as it takes.
    ///
    /// # Errors
    /// The socket's.
    pub async fn send(&self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match self.out.try_write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.out.writable().await?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn what_a_client_does_not_take_at_once_is_owed_and_sent_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (mut client, accepted) = (client.await.unwrap(), listener.accept().await.unwrap().0);
        let (_input, output) = accepted.into_split();
        let link = Link::new(output);
        let round: Vec<u8> = (0..64 * 1024).map(|i| (i % 251) as u8).collect();
        let mut rounds = 0;
        while !link.owes() {
            link.enter_round();
            link.leave_round(&round);
            assert!(!link.is_in_round());
            rounds += 1;
            assert!(rounds < 10_000, "the system takes everything");
        }
        let owed = link.take_owed();
        assert!(!link.owes() && owed.len() <= round.len() && round.ends_with(&owed));
        let read = async {
            let mut bytes = vec![0; rounds * round.len()];
            client.read_exact(&mut bytes).await.unwrap();
            bytes
        };
        let (sent, bytes) = tokio::join!(link.send(&owed), read);
        sent.unwrap();
        assert!(bytes.chunks(round.len()).all(|chunk| chunk == round));
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_owed_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = (client.await.unwrap(), listener.accept().await.unwrap().0);
        let (_input, output) = accepted.into_split();
        let link = Link::new(output);
        socket2::SockRef::from(&client)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        drop(client);
        // The reset may take a moment to arrive.
        for _ in 0..1_000 {
            link.leave_round(b"reply");
            assert!(!link.owes());
        }
        assert!(link.is_broken());
        assert!(link.send(b"reply").await.is_err());
    }
}
