//! Keys of other nodes for runs of this one.
//!
//! A run with keys of other nodes has all its keys in a shard of its own kind: the worker's guests. That has no slots, and takes only what
//! is lent to runs here, by other nodes, other workers or this worker's own shard. So what follows another node's slots here is not in the
//! way of what that node has lent.

use crate::peers::{PeerError, PeerLink, Pending};
use crate::worker::Worker;
use std::rc::Rc;
use std::time::Duration;
use tollgate_cluster::wire::{
    GiveBack, GivenBack, Kind, Lend, Lent, LentOutcome, Part, Piece, Wanted, Within, read_message,
};
use tollgate_commands::{CommandError, KeyNeed, LoanReader, LoanWriter, RunId};
use tollgate_store::{MAX_KEY_BYTES, Space, slot_of};

/// Keys that are asked for together.
const ASKED_AT_ONCE: usize = 256;
/// Bytes of keys after which no further one is asked for together with them.
const ASKED_BYTES: usize = 32 << 10;
/// Bytes of a key that are written as one piece.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of pieces that go back in one frame, about.
const BACK_BYTES: usize = 1 << 20;
/// How long a run waits before it asks again.
const AGAIN: Duration = Duration::from_millis(5);

/// Why a run does not get its keys now.
#[derive(Debug)]
pub enum Obstacle {
    /// A slot is on its way, or elsewhere by now, or its node cannot be reached. What the run has must not be in the way of that.
    Moved(u16),
    /// Somebody waits for this run who is in its way.
    Busy,
    /// It will not get them.
    Error(CommandError),
}

impl From<CommandError> for Obstacle {
    fn from(error: CommandError) -> Self {
        Self::Error(error)
    }
}

/// What a worker of a peer has lent to a run, or was asked for.
#[derive(Debug)]
pub struct Abroad {
    link: Rc<PeerLink>,
    /// Which of the link's connections they were lent over.
    connection: Option<u64>,
    /// By their numbers.
    keys: Vec<(Space, Box<[u8]>)>,
}

/// The connection to a worker of a peer, and keys that it has.
type AtPeer<'a> = (Rc<PeerLink>, &'a [KeyNeed]);

/// Keys that a worker of a peer was asked for.
#[derive(Debug)]
pub struct Asked {
    /// Which of those that the run has to do with.
    at: usize,
    /// The keys that it wants, of which the first were asked for.
    needs: Vec<KeyNeed>,
    pending: Pending,
}

impl Worker {
    /// The name of a space for other nodes.
    fn within(&self, space: Space) -> Within<'_> {
        match space {
            Space::Db(number) => Within::Db(number),
            // What stands in is in no run.
            Space::Rule(number) | Space::StandIn(number) => {
                Within::Rule(self.node.rules.by_number(number).map_or("", |rule| &rule.id))
            }
        }
    }

    /// Borrows keys of a peer, of which this is the place, in ascending order; they are guests of the run then.
    ///
    /// # Errors
    /// [`Obstacle`]. What was lent before it stays lent.
    pub async fn borrow_abroad(
        &self,
        abroad: &mut Vec<Abroad>,
        place: usize,
        needs: &[KeyNeed],
        run: RunId,
    ) -> Result<(), Obstacle> {
        for (link, needs) in self.links_of(place, needs)? {
            let asked = self.ask(abroad, link, needs, (run, true))?;
            self.take_lent(abroad, asked, (run, true)).await?;
        }
        Ok(())
    }

    /// Asks a peer, of which this is the place, for keys that are lent only if they are free.
    ///
    /// # Errors
    /// [`Obstacle`]. What was asked for may be lent.
    pub fn ask_abroad(
        &self,
        abroad: &mut Vec<Abroad>,
        place: usize,
        needs: &[KeyNeed],
        run: RunId,
    ) -> Result<Vec<Asked>, Obstacle> {
        let mut asked = Vec::new();
        for (link, needs) in self.links_of(place, needs)? {
            asked.push(self.ask(abroad, link, needs, (run, false))?);
        }
        Ok(asked)
    }

    /// Takes in what a peer lends of what it was asked for.
    ///
    /// # Errors
    /// [`Obstacle`]. What was lent before it stays lent.
    pub async fn take_asked(&self, abroad: &mut Vec<Abroad>, asked: Asked, run: RunId) -> Result<(), Obstacle> {
        self.take_lent(abroad, asked, (run, false)).await
    }

    /// The connections to the workers of a peer that have keys, with these.
    fn links_of<'a>(&self, place: usize, needs: &'a [KeyNeed]) -> Result<Vec<AtPeer<'a>>, Obstacle> {
        let slot = needs.first().map_or(0, |need| slot_of(&need.key));
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return Err(Obstacle::Moved(slot));
        };
        let number = place.checked_sub(self.node.workers() + 1);
        // Numbers of peers have 16 bits.
        let Some(peer) = number.and_then(|number| cluster.name_of(number as u16)) else {
            return Err(Obstacle::Moved(slot));
        };
        if needs.iter().any(|need| need.key.len() > MAX_KEY_BYTES) {
            return Err(CommandError::KeyTooLong(MAX_KEY_BYTES).into());
        }
        let theirs = |need: &KeyNeed| self.worker_of(&peer, slot_of(&need.key));
        let by_worker = needs.chunk_by(|a, b| theirs(a) == theirs(b));
        by_worker
            .map(|needs| {
                let worker = needs.first().map_or(0, theirs);
                let link = links.peers.link(&peer, worker).map_err(|_| Obstacle::Moved(slot))?;
                Ok((link, needs))
            })
            .collect()
    }

    /// Asks for the first of some keys, as many as go together.
    fn ask(
        &self,
        abroad: &mut Vec<Abroad>,
        link: Rc<PeerLink>,
        needs: &[KeyNeed],
        (run, waits): (RunId, bool),
    ) -> Result<Asked, Obstacle> {
        let at = abroad.iter().position(|lent| Rc::ptr_eq(&lent.link, &link));
        let at = at.unwrap_or_else(|| {
            abroad.push(Abroad {
                link: Rc::clone(&link),
                connection: None,
                keys: Vec::new(),
            });
            abroad.len() - 1
        });
        let mut bytes = 0;
        let together = needs.iter().take(ASKED_AT_ONCE).take_while(|need| {
            let fits = bytes < ASKED_BYTES;
            bytes += need.key.len();
            fits
        });
        let keys = together.map(|need| Wanted {
            within: self.within(need.space),
            key: &need.key,
        });
        let message = Lend {
            run: run.0,
            waits,
            keys: keys.collect(),
        };
        let slot = needs.first().map_or(0, |need| slot_of(&need.key));
        let pending = link.request(&message).map_err(|_| Obstacle::Moved(slot))?;
        Ok(Asked {
            at,
            needs: needs.to_vec(),
            pending,
        })
    }

    /// Takes in what is lent, and asks for the rest.
    async fn take_lent(
        &self,
        abroad: &mut Vec<Abroad>,
        mut asked: Asked,
        (run, waits): (RunId, bool),
    ) -> Result<(), Obstacle> {
        loop {
            let Asked { at, needs, pending } = asked;
            let lent = self.take_loans(&mut abroad[at], &needs, pending, run).await?;
            if lent == needs.len() {
                return Ok(());
            }
            let link = Rc::clone(&abroad[at].link);
            asked = self.ask(abroad, link, &needs[lent..], (run, waits))?;
        }
    }

    /// Takes one answer; how many of the keys are lent.
    async fn take_loans(
        &self,
        abroad: &mut Abroad,
        needs: &[KeyNeed],
        pending: Pending,
        run: RunId,
    ) -> Result<usize, Obstacle> {
        let slot = needs.first().map_or(0, |need| slot_of(&need.key));
        let answer = match pending.await {
            Ok(answer) => answer,
            Err(PeerError::NotUnderstood) => return Err(CommandError::OfNode(NOT_UNDERSTOOD.into()).into()),
            Err(_) => return Err(Obstacle::Moved(slot)),
        };
        // Over another connection it is another loan.
        let connection = Some(abroad.link.connection());
        if abroad.connection.is_some() && abroad.connection != connection {
            return Err(Obstacle::Moved(slot));
        }
        abroad.connection = connection;
        let lent = match answer.kind {
            Kind::Lent => read_message::<Lent<'_>>(answer.version, &answer.body).ok(),
            _ => None,
        };
        match lent.map(|lent| lent.outcome) {
            Some(LentOutcome::Lent { clocks_us, pieces }) if (1..=needs.len()).contains(&clocks_us.len()) => {
                let count = clocks_us.len();
                self.admit_abroad(abroad, &needs[..count], &clocks_us, &pieces, run)?;
                self.counters().keys_borrowed.add(count as u64);
                Ok(count)
            }
            Some(LentOutcome::Busy) => Err(Obstacle::Busy),
            Some(LentOutcome::NotHere { slot }) => Err(Obstacle::Moved(slot)),
            Some(LentOutcome::Refused { why }) => Err(CommandError::OfNode(why.to_owned()).into()),
            Some(LentOutcome::Lent { .. }) | None => Err(CommandError::OfNode(NOT_UNDERSTOOD.into()).into()),
        }
    }

    /// Takes in what was lent.
    fn admit_abroad(
        &self,
        abroad: &mut Abroad,
        needs: &[KeyNeed],
        clocks_us: &[u64],
        pieces: &[Piece<'_>],
        run: RunId,
    ) -> Result<(), CommandError> {
        let Some(links) = &self.links else { return Ok(()) };
        let now_us = self.node.clock.now_us();
        let mut guests = links.guests.borrow_mut();
        let mut pieces = pieces.iter().peekable();
        for (need, &clock_us) in needs.iter().zip(clocks_us) {
            let number = abroad.keys.len() as u32;
            let mut reader = LoanReader::default();
            let mut has_some = false;
            while let Some(piece) = pieces.next_if(|piece| piece.key == number) {
                let read = guests.read_loan(&mut reader, need.space, &need.key, piece.bytes);
                read.map_err(|error| CommandError::Other(error.to_string()))?;
                has_some = true;
            }
            let clock_offset_us = clock_us.wrapping_sub(now_us) as i64;
            let loan = reader.finish(need.space, &need.key, clock_offset_us);
            let loan = loan.map_err(|error| CommandError::Other(error.to_string()))?;
            guests.admit(loan, run);
            abroad.keys.push((need.space, need.key.clone()));
            if has_some && !guests.has_entry(need.space, &need.key) {
                // Without it a check would find its bucket full.
                return Err(CommandError::TooManyLimits(self.node.config.limits.interned_limits));
            }
        }
        Ok(())
    }

    /// Gives back what other nodes have lent to a run. Answers what is to be heard from those that were sent changes.
    pub fn hand_back_abroad(&self, abroad: Vec<Abroad>, run: RunId) -> Vec<Result<Pending, PeerError>> {
        let mut waiting = Vec::new();
        for lent in abroad {
            waiting.extend(self.hand_back_to(&lent, run));
        }
        waiting
    }

    fn hand_back_to(&self, lent: &Abroad, run: RunId) -> Option<Result<Pending, PeerError>> {
        let links = self.links.as_ref()?;
        let mut guests = links.guests.borrow_mut();
        let is_same = lent.connection == Some(lent.link.connection());
        let (mut has_changed, mut failed) = (false, None);
        let mut written: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        for (number, (space, key)) in (0..).zip(&lent.keys) {
            if guests.has_changed_guest(*space, key) {
                has_changed = true;
                let mut writer = LoanWriter::default();
                loop {
                    let mut piece = Vec::new();
                    let is_last = guests.write_loan(*space, key, &mut writer, PIECE_BYTES, &mut piece);
                    bytes += piece.len();
                    written.push((number, piece));
                    if bytes >= BACK_BYTES.min(self.node.config.limits.peer_frame_bytes / 4) {
                        bytes = 0;
                        let part = give_back(run, &written, Part::More);
                        failed = failed.or(lent.link.send(&part).err().filter(|_| is_same));
                        written.clear();
                    }
                    if is_last {
                        break;
                    }
                }
            }
            if let Some(loan) = guests.dismiss(*space, key, run) {
                guests.drop_loan(loan);
            }
        }
        let last = give_back(run, &written, Part::Last);
        if !has_changed {
            // If that does not arrive the connection is over, and with it the loan.
            let _ = lent.link.send(&last);
            return None;
        }
        Some(match (is_same, failed) {
            (true, None) => lent.link.request(&last),
            (_, failed) => {
                let _ = lent.link.send(&give_back(run, &[], Part::Void));
                Err(failed.unwrap_or(PeerError::GivenUp))
            }
        })
    }

    /// Waits for the answer of a peer that was sent what has changed.
    ///
    /// # Errors
    /// [`CommandError::Torn`]: it has not taken it, or has not said so.
    pub async fn until_taken(&self, sent: Result<Pending, PeerError>) -> Result<(), CommandError> {
        let patience = Duration::from_millis(self.node.config.limits.keys_wait_ms as u64);
        let why = match sent {
            Ok(pending) => match tokio::time::timeout(patience, pending).await {
                Ok(Ok(answer)) if answer.kind == Kind::GivenBack => {
                    match read_message::<GivenBack>(answer.version, &answer.body) {
                        Ok(GivenBack { is_kept: true }) => return Ok(()),
                        _ => "it had taken them back before".to_owned(),
                    }
                }
                Ok(Ok(_)) => PeerError::Protocol.to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => PeerError::TimedOut.to_string(),
            },
            Err(error) => error.to_string(),
        };
        self.counters().loans_torn.add(1);
        tracing::warn!(event = "loan_torn", why);
        Err(CommandError::Torn)
    }

    /// Waits until a slot that has moved may be where it goes.
    pub async fn until_moved(&self, slot: u16) {
        self.until_open(slot).await;
        self.until_changed(AGAIN).await;
    }
}

fn give_back(run: RunId, pieces: &[(u32, Vec<u8>)], part: Part) -> GiveBack<'_> {
    let pieces = pieces.iter().map(|(key, bytes)| Piece { key: *key, bytes });
    GiveBack {
        run: run.0,
        pieces: pieces.collect(),
        part,
    }
}

/// The error where a node does not know how to lend, or lends what cannot be read.
const NOT_UNDERSTOOD: &str = "ERR another node and this one do not understand each other's loans";
