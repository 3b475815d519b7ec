//! The closed loop: every connection keeps one batch in flight.

use crate::connection::{Connection, READ_BYTES};
use crate::keys::{Distribution, Keys};
use crate::process;
use crate::request::Template;
use crate::{Error, Result, latency_histogram};
use hdrhistogram::Histogram;
use mio::{Events, Poll};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A run in which no reply comes for this long has failed.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What a closed loop sends.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The request.
    pub template: Template,
    /// Which keys.
    pub distribution: Distribution,
    /// Connections, each with a batch of its own.
    pub connections: usize,
    /// Requests a batch.
    pub pipeline: usize,
    /// Seed of the keys.
    pub seed: u64,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this time; batches then in flight stay so and count in the next run.
    Elapsed(Duration),
    /// After at least this many requests, when all are answered. Rounded up to whole batches.
    Requests(u64),
}

/// What a run saw.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Replies that came in during the run.
    pub replies: u64,
    /// Bytes of these replies.
    pub reply_bytes: u64,
    /// How long it ran.
    pub elapsed: Duration,
    /// CPU time of this client's thread.
    pub client_cpu: Duration,
    /// Nanoseconds from sending a batch to each of its replies.
    pub latency_ns: Histogram<u64>,
}

impl Outcome {
    /// Replies a second.
    pub fn rate_per_s(&self) -> f64 {
        self.replies as f64 / self.elapsed.as_secs_f64()
    }
}

/// Connections under closed-loop load; between runs they stay open.
#[derive(Debug)]
pub struct ClosedLoop {
    poll: Poll,
    lanes: Vec<Lane>,
    template: Template,
    keys: Keys,
    pipeline: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Lane {
    connection: Connection,
    /// The batch; only the keys in it change.
    batch: Vec<u8>,
    written: usize,
    outstanding: u64,
    sent_at: Instant,
}

impl ClosedLoop {
    /// Connects; nothing is sent yet.
    pub fn connect(address: SocketAddr, plan: &Plan) -> Result<Self> {
        let poll = Poll::new().map_err(Error::io("create a poll"))?;
        let batch = plan.template.batch(plan.pipeline);
        let lanes = (0..plan.connections)
            .map(|token| {
                Ok(Lane {
                    connection: Connection::open(address, &poll, token)?,
                    batch: batch.clone(),
                    written: batch.len(),
                    outstanding: 0,
                    sent_at: Instant::now(),
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            poll,
            lanes,
            template: plan.template.clone(),
            keys: plan.distribution.draw(plan.seed),
            pipeline: plan.pipeline,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Loads the server until `until`.
    pub fn run(&mut self, until: Until) -> Result<Outcome> {
        let mut outcome = Outcome {
            replies: 0,
            reply_bytes: 0,
            elapsed: Duration::ZERO,
            client_cpu: Duration::ZERO,
            latency_ns: latency_histogram(),
        };
        let mut events = Events::with_capacity(self.lanes.len().max(1));
        let client_cpu = process::own_thread_cpu();
        let started = Instant::now();
        let mut last_reply = started;
        let mut to_send = match until {
            Until::Elapsed(_) => u64::MAX,
            Until::Requests(requests) => requests,
        };
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].outstanding == 0 {
                self.send_batch(lane, &mut to_send)?;
            }
        }
        loop {
            self.poll
                .poll(&mut events, Some(Duration::from_millis(100)))
                .or_else(ignore_interrupt)
                .map_err(Error::io("poll"))?;
            for event in &events {
                let at = event.token().0;
                if event.is_writable() {
                    self.lanes[at].flush()?;
                }
                if event.is_readable() {
                    self.receive(at, &mut to_send, &mut outcome, &mut last_reply)?;
                }
            }
            let now = Instant::now();
            let done = match until {
                Until::Elapsed(duration) => now - started >= duration,
                Until::Requests(_) => to_send == 0 && self.outstanding() == 0,
            };
            if done {
                outcome.elapsed = now - started;
                outcome.client_cpu = process::own_thread_cpu().saturating_sub(client_cpu);
                return Ok(outcome);
            }
            if now.saturating_duration_since(last_reply) > SILENCE_MAX {
                return Err(Error::Silent {
                    seconds: SILENCE_MAX.as_secs(),
                    outstanding: self.outstanding(),
                });
            }
        }
    }

    fn outstanding(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.outstanding).sum()
    }

    #[inline]
    fn receive(&mut self, at: usize, to_send: &mut u64, outcome: &mut Outcome, last_reply: &mut Instant) -> Result<()> {
        let lane = &mut self.lanes[at];
        let received = lane.connection.read(&mut self.buffer, self.template.words())?;
        if received.replies == 0 {
            return Ok(());
        }
        let now = Instant::now();
        *last_reply = now;
        outcome.replies += received.replies;
        outcome.reply_bytes += received.bytes;
        outcome
            .latency_ns
            .saturating_record_n((now - lane.sent_at).as_nanos() as u64, received.replies);
        lane.outstanding = lane
            .outstanding
            .checked_sub(received.replies)
            .ok_or_else(|| Error::BadReply {
                request: self.template.words().to_owned(),
                reply: "more replies than requests".to_owned(),
            })?;
        if lane.outstanding == 0 {
            self.send_batch(at, to_send)?;
        }
        Ok(())
    }

    #[inline]
    fn send_batch(&mut self, at: usize, to_send: &mut u64) -> Result<()> {
        if *to_send == 0 {
            return Ok(());
        }
        *to_send = to_send.saturating_sub(self.pipeline as u64);
        let lane = &mut self.lanes[at];
        let keys = &mut self.keys;
        self.template.patch_batch(&mut lane.batch, || keys.next_number());
        lane.outstanding = self.pipeline as u64;
        lane.written = 0;
        lane.sent_at = Instant::now();
        lane.flush()
    }
}

impl Lane {
    #[inline]
    fn flush(&mut self) -> Result<()> {
        if self.written < self.batch.len() {
            self.written += self.connection.write(&self.batch[self.written..])?;
        }
        Ok(())
    }
}

/// A signal that interrupts a wait is no failure.
pub(crate) fn ignore_interrupt(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::Interrupted {
        Ok(())
    } else {
        Err(error)
    }
}
