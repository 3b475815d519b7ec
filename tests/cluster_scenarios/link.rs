//! A connection of the load to a node.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_suite::{Value, decode, encode_command};

/// After that long there is no answer.
const SILENCE: Duration = Duration::from_secs(10);

/// Why a command has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// There is no connection to be had.
    Unreached,
    /// The node closed the connection.
    Closed,
    /// Nothing came.
    Silent,
}

/// A connection to a node.
pub struct Link {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Link {
    pub async fn connect(to: SocketAddr) -> Result<Self, Unanswered> {
        let connected = timeout(SILENCE, TcpStream::connect(to)).await;
        let stream = connected
            .map_err(|_| Unanswered::Silent)?
            .map_err(|_| Unanswered::Unreached)?;
        stream.set_nodelay(true).map_err(|_| Unanswered::Unreached)?;
        Ok(Self {
            stream,
            received: Vec::new(),
        })
    }

    /// Sends a command and waits for its reply. After an error the connection is of no use.
    pub async fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, Unanswered> {
        timeout(SILENCE, self.exchange(&encode_command(args)))
            .await
            .map_err(|_| Unanswered::Silent)?
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<Value, Unanswered> {
        let closed = |_| Unanswered::Closed;
        self.stream.write_all(request).await.map_err(closed)?;
        loop {
            if let Some((value, length)) = decode(&self.received).expect("a node speaks RESP") {
                self.received.drain(..length);
                return Ok(value);
            }
            let read = self.stream.read_buf(&mut self.received).await.map_err(closed)?;
            if read == 0 {
                return Err(Unanswered::Closed);
            }
        }
    }
}
