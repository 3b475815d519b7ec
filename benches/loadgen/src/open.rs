//! The open loop: requests fall due at times of their own, and latency counts from then.

use crate::closed::ignore_interrupt;
use crate::connection::{Connection, READ_BYTES};
use crate::keys::{Distribution, Keys, Random};
use crate::request::Template;
use crate::{Error, Result, latency_histogram};
use hdrhistogram::Histogram;
use mio::{Events, Poll};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Requests without a reply, over all connections; more means that the rate is beyond the server.
pub const OUTSTANDING_MAX: usize = 1 << 21;
/// How long the replies to the last requests may take.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Bursts sent before replies are looked at again.
const BURSTS_A_TURN: usize = 256;

/// When the requests of a stream fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independently of each other, as those of many users: exponential gaps.
    Poisson,
    /// At even distances.
    Even,
}

/// One kind of request at one rate, on connections of its own.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The request.
    pub template: Template,
    /// Which keys.
    pub distribution: Distribution,
    /// Connections; bursts go to them in turn.
    pub connections: usize,
    /// Requests a second, over all connections.
    pub rate_per_s: f64,
    /// Requests that fall due together and are written together.
    pub burst: usize,
    /// The gaps between bursts.
    pub arrivals: Arrivals,
    /// Seed of keys and gaps.
    pub seed: u64,
}

/// What a run saw of one stream.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests that fell due; all were sent and answered.
    pub requests: u64,
    /// Nanoseconds from the time a request was due to its reply.
    pub latency_ns: Histogram<u64>,
    /// Nanoseconds from the time a request was due to the time this client handed it to its socket: the part of the
    /// latency that is the client's own.
    pub send_lag_ns: Histogram<u64>,
    /// How long requests fell due.
    pub elapsed: Duration,
}

impl Outcome {
    /// Adds what another run of the same stream saw.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        let failed = |_| Error::Setup("histograms of different ranges do not add".to_owned());
        self.latency_ns.add(&other.latency_ns).map_err(failed)?;
        self.send_lag_ns.add(&other.send_lag_ns).map_err(failed)?;
        self.requests += other.requests;
        self.elapsed += other.elapsed;
        Ok(())
    }
}

/// Connections under open-loop load; between runs they stay open.
#[derive(Debug)]
pub struct OpenLoop {
    poll: Poll,
    lanes: Vec<Lane>,
    sources: Vec<Source>,
    /// Requests without a reply, over all lanes.
    outstanding: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Source {
    stream: Stream,
    keys: Keys,
    gaps: Random,
    first_lane: usize,
    next_lane: usize,
    /// When the next burst is due, in nanoseconds of the run.
    due_ns: f64,
}

#[derive(Debug)]
struct Lane {
    connection: Connection,
    source: usize,
    out: Vec<u8>,
    /// Due times, in nanoseconds of the run, of what is not answered yet; one a request.
    waiting: VecDeque<u64>,
}

impl OpenLoop {
    /// Connects; nothing is sent yet.
    pub fn connect(address: SocketAddr, streams: &[Stream]) -> Result<Self> {
        let poll = Poll::new().map_err(Error::io("create a poll"))?;
        let mut lanes = Vec::new();
        let mut sources = Vec::new();
        for (source, stream) in streams.iter().enumerate() {
            let first_lane = lanes.len();
            for _ in 0..stream.connections {
                lanes.push(Lane {
                    connection: Connection::open(address, &poll, lanes.len())?,
                    source,
                    out: Vec::new(),
                    waiting: VecDeque::new(),
                });
            }
            sources.push(Source {
                keys: stream.distribution.draw(stream.seed),
                gaps: Random::new(!stream.seed),
                stream: stream.clone(),
                first_lane,
                next_lane: 0,
                due_ns: 0.0,
            });
        }
        Ok(Self {
            poll,
            lanes,
            sources,
            outstanding: 0,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Lets requests fall due for `duration`, then waits until all are answered. One outcome a stream.
    ///
    /// The thread never sleeps meanwhile: a wait of the poll is far coarser than what is measured.
    pub fn run(&mut self, duration: Duration) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Outcome> = self
            .sources
            .iter()
            .map(|_| Outcome {
                requests: 0,
                latency_ns: latency_histogram(),
                send_lag_ns: latency_histogram(),
                elapsed: duration,
            })
            .collect();
        for source in &mut self.sources {
            source.due_ns = source.gap_ns();
        }
        let mut events = Events::with_capacity(self.lanes.len().max(1));
        let started = Instant::now();
        let duration_ns = duration.as_nanos() as u64;
        loop {
            let all_sent = self.send_due(started, duration_ns, &mut outcomes)?;
            self.poll
                .poll(&mut events, Some(Duration::ZERO))
                .or_else(ignore_interrupt)
                .map_err(Error::io("poll"))?;
            for event in &events {
                let at = event.token().0;
                if event.is_writable() {
                    self.lanes[at].flush()?;
                }
                if event.is_readable() {
                    self.receive(at, started, &mut outcomes)?;
                }
            }
            if all_sent {
                if self.outstanding == 0 {
                    return Ok(outcomes);
                }
                if started.elapsed() > duration + DRAIN_MAX {
                    return Err(Error::Silent {
                        seconds: DRAIN_MAX.as_secs(),
                        outstanding: self.outstanding as u64,
                    });
                }
            }
        }
    }

    /// Sends what is due; true when nothing more will fall due in this run.
    #[inline]
    fn send_due(&mut self, started: Instant, duration_ns: u64, outcomes: &mut [Outcome]) -> Result<bool> {
        let mut all_sent = true;
        for (source, outcome) in self.sources.iter_mut().zip(outcomes) {
            let mut bursts = 0;
            loop {
                let due_ns = source.due_ns as u64;
                if due_ns >= duration_ns {
                    break;
                }
                let now_ns = started.elapsed().as_nanos() as u64;
                if due_ns > now_ns || bursts == BURSTS_A_TURN {
                    all_sent = false;
                    break;
                }
                bursts += 1;
                let lane = &mut self.lanes[source.first_lane + source.next_lane];
                source.next_lane = (source.next_lane + 1) % source.stream.connections;
                for _ in 0..source.stream.burst {
                    let key = source.keys.next_number();
                    source.stream.template.append(key, &mut lane.out);
                    lane.waiting.push_back(due_ns);
                }
                lane.flush()?;
                outcome.requests += source.stream.burst as u64;
                outcome
                    .send_lag_ns
                    .saturating_record_n(now_ns - due_ns, source.stream.burst as u64);
                self.outstanding += source.stream.burst;
                if self.outstanding > OUTSTANDING_MAX {
                    return Err(Error::Overrun(OUTSTANDING_MAX));
                }
                source.due_ns += source.gap_ns();
            }
        }
        Ok(all_sent)
    }

    #[inline]
    fn receive(&mut self, at: usize, started: Instant, outcomes: &mut [Outcome]) -> Result<()> {
        let lane = &mut self.lanes[at];
        let words = self.sources[lane.source].stream.template.words();
        let received = lane.connection.read(&mut self.buffer, words)?;
        let now_ns = started.elapsed().as_nanos() as u64;
        self.outstanding = self.outstanding.saturating_sub(received.replies as usize);
        for _ in 0..received.replies {
            let due_ns = lane.waiting.pop_front().ok_or_else(|| Error::BadReply {
                request: words.to_owned(),
                reply: "more replies than requests".to_owned(),
            })?;
            outcomes[lane.source]
                .latency_ns
                .saturating_record(now_ns.saturating_sub(due_ns));
        }
        Ok(())
    }
}

impl Source {
    #[inline]
    fn gap_ns(&mut self) -> f64 {
        let mean_ns = 1e9 * self.stream.burst as f64 / self.stream.rate_per_s;
        match self.stream.arrivals {
            Arrivals::Even => mean_ns,
            // 1 - u is in (0, 1], so the logarithm is finite.
            Arrivals::Poisson => -(1.0 - self.gaps.unit()).ln() * mean_ns,
        }
    }
}

impl Lane {
    #[inline]
    fn flush(&mut self) -> Result<()> {
        if !self.out.is_empty() {
            let written = self.connection.write(&self.out)?;
            self.out.drain(..written);
        }
        Ok(())
    }
}
