//! Steps as messages: asked of peers, and done for them.

use super::steps::{SlotsDone, SlotsOp};
use crate::peers::{Answer, ReplyHandle};
use crate::worker::Worker;
use std::rc::Rc;
use tollgate_cluster::wire::{Keyspace, KeyspaceDone, KeyspaceOutcome, KeyspaceStep, Kind, ScanPlace, read_message};
use tollgate_commands::{Pattern, SlotPosition, SlotScan, SlotScanned, TypeFilter};
use tollgate_store::{DATABASES, SlotSet};

fn place(at: SlotPosition, mark: u8) -> ScanPlace {
    ScanPlace {
        slot: at.slot,
        position: at.position,
        mark,
    }
}

fn position(place: ScanPlace) -> SlotPosition {
    SlotPosition {
        slot: place.slot,
        position: place.position,
    }
}

/// Does something with the message that asks for a step.
pub(super) fn with_message<T>(op: &SlotsOp, act: impl FnOnce(&Keyspace<'_>) -> T) -> T {
    let slots = match op {
        SlotsOp::Count(_, slots) | SlotsOp::Scan(_, _, slots) => slots.to_bytes(),
        SlotsOp::Random(_) | SlotsOp::Flush(_) => Vec::new(),
    };
    let slots = &slots[..];
    let step = match op {
        SlotsOp::Count(db, _) => KeyspaceStep::Count { db: *db, slots },
        SlotsOp::Scan(scan, mark, _) => KeyspaceStep::Scan {
            db: scan.db,
            slots,
            from: place(scan.from, *mark),
            // At most STEP_ENTRIES_MAX are looked at.
            count: scan.count as u32,
            pattern: scan.pattern.as_ref().map(Pattern::text),
            of_type: scan.of_type.name(),
        },
        SlotsOp::Random(db) => KeyspaceStep::Random { db: *db },
        SlotsOp::Flush(db) => KeyspaceStep::Flush { db: *db },
    };
    act(&Keyspace { step })
}

/// What a peer has done, if that is what it answered.
pub(super) fn read_done(answer: &Answer) -> Option<SlotsDone> {
    if answer.kind != Kind::KeyspaceDone {
        return None;
    }
    let message = read_message::<KeyspaceDone<'_>>(answer.version, &answer.body).ok()?;
    Some(match message.done {
        KeyspaceOutcome::Counted { keys, missed } => SlotsDone::Counted(keys, SlotSet::from_bytes(missed)?),
        KeyspaceOutcome::Scanned {
            keys,
            looked_at,
            next,
            missed,
        } => {
            let found = SlotScanned {
                keys: keys.into_iter().map(Box::from).collect(),
                looked_at: looked_at as usize,
                next: next.map(position),
            };
            SlotsDone::Scanned(found, next.map_or(0, |next| next.mark), SlotSet::from_bytes(missed)?)
        }
        KeyspaceOutcome::Random { key } => SlotsDone::Random(key.map(Box::from)),
        KeyspaceOutcome::Flushed { slots } => SlotsDone::Flushed(SlotSet::from_bytes(slots)?),
        KeyspaceOutcome::Freed => SlotsDone::Freed,
        KeyspaceOutcome::Busy => SlotsDone::Busy,
    })
}

/// Answers with what was done. Who has gone wants no answer.
fn answer(done: &SlotsDone, reply: ReplyHandle) {
    let slots = match done {
        SlotsDone::Counted(_, slots) | SlotsDone::Scanned(_, _, slots) | SlotsDone::Flushed(slots) => slots.to_bytes(),
        SlotsDone::Random(_) | SlotsDone::Busy | SlotsDone::Freed => Vec::new(),
    };
    let slots = &slots[..];
    let done = match done {
        SlotsDone::Counted(keys, _) => KeyspaceOutcome::Counted {
            keys: *keys,
            missed: slots,
        },
        SlotsDone::Scanned(found, mark, _) => KeyspaceOutcome::Scanned {
            keys: found.keys.iter().map(|key| &**key).collect(),
            // Little more than STEP_ENTRIES_MAX.
            looked_at: found.looked_at as u32,
            next: found.next.map(|next| place(next, *mark)),
            missed: slots,
        },
        SlotsDone::Random(key) => KeyspaceOutcome::Random { key: key.as_deref() },
        SlotsDone::Flushed(_) => KeyspaceOutcome::Flushed { slots },
        SlotsDone::Busy => KeyspaceOutcome::Busy,
        SlotsDone::Freed => KeyspaceOutcome::Freed,
    };
    let _ = reply.reply(&KeyspaceDone { done });
}

/// What a peer wants done.
enum Wanted {
    /// By the shard of the worker that it has asked.
    Step(SlotsOp),
    Flush(Option<u8>),
    Free,
}

/// What a peer has asked for; nothing if that makes no sense.
fn wanted(version: u16, body: &[u8], pattern_bytes_max: usize) -> Option<Wanted> {
    let message = read_message::<Keyspace<'_>>(version, body).ok()?;
    let is_db = |db: u8| (db < DATABASES).then_some(db);
    Some(match message.step {
        KeyspaceStep::Count { db, slots } => Wanted::Step(SlotsOp::Count(is_db(db)?, SlotSet::from_bytes(slots)?)),
        KeyspaceStep::Scan {
            db,
            slots,
            from,
            count,
            pattern,
            of_type,
        } => {
            let scan = SlotScan {
                db: is_db(db)?,
                from: position(from),
                count: count as usize,
                pattern: match pattern {
                    None => None,
                    // The asker has looked at its length; this node's bound may be another.
                    Some(text) => Pattern::new(text, pattern_bytes_max.max(text.len())).ok()?,
                },
                of_type: of_type.map_or(TypeFilter::Any, |name| TypeFilter::named(name.as_bytes())),
            };
            Wanted::Step(SlotsOp::Scan(scan, from.mark, SlotSet::from_bytes(slots)?))
        }
        KeyspaceStep::Random { db } => Wanted::Step(SlotsOp::Random(is_db(db)?)),
        KeyspaceStep::Flush { db: Some(db) } => Wanted::Flush(Some(is_db(db)?)),
        KeyspaceStep::Flush { db: None } => Wanted::Flush(None),
        KeyspaceStep::Free => Wanted::Free,
    })
}

impl Worker {
    /// Does what a peer has asked for, and answers.
    pub(in crate::cluster) fn serve_keyspace(self: &Rc<Self>, version: u16, body: &[u8], reply: ReplyHandle) {
        let Some(wanted) = wanted(version, body, self.node.config.limits.pattern_bytes) else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let done = match wanted {
                Wanted::Step(op) => match worker.ask_slots(worker.index, op).await {
                    Ok(done) => done,
                    // The node stops.
                    Err(_) => return,
                },
                Wanted::Flush(db) => worker
                    .flush_node(db, false)
                    .await
                    .map_or(SlotsDone::Busy, SlotsDone::Flushed),
                Wanted::Free => {
                    worker.free_node().await;
                    SlotsDone::Freed
                }
            };
            answer(&done, reply);
        });
    }
}
