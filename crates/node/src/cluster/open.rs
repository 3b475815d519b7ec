//! Commands that were sent to others and have no reply yet.

use crate::peers::{Answer, PeerError};
use crate::remote::{Batch, Elsewhere, Replies};
use std::sync::Arc;
use tollgate_cluster::circuit::Class;
use tollgate_cluster::wire::{self, Kind, Why, read_message};
use tollgate_commands::{Run, Spec};
use tollgate_store::slot_of;

/// The reply to a command that nobody decided. It had no effect.
pub(super) const NOBODY: &[u8] = b"-CLUSTERDOWN no node that answers has the key's slot\r\n";
/// The reply to a command that was sent to a node which did not answer any more.
pub(super) const UNKNOWN: &[u8] =
    b"-CLUSTERDOWN the node that has the key's slot has not answered; the command may have been done\r\n";

/// The reply to a command that no frame to another node can take. It had no effect.
const TOO_LONG: &[u8] = b"-ERR the command is too long to be sent to the node that has the key's slot\r\n";

/// How often commands go on at once to where a node says that their slot is. Then they wait, until nodes agree.
const HOPS_MAX: u32 = 4;

/// Commands that have no reply yet.
pub(super) struct Open {
    pub batch: Batch,
    pub lane: u64,
    /// By index: the reply, once there is one.
    pub replies: Vec<Option<Box<[u8]>>>,
    /// When they came, by the node's clock.
    pub asked_us: u64,
    /// Peers that were asked for them and did not answer in time.
    pub missed: Vec<Arc<str>>,
    /// By slot: who has it now, as the one says that was asked last.
    moved: Vec<(u16, Arc<str>)>,
    /// How often commands were sent to who does not have their slots, or could not be sent.
    pub hops: u32,
    /// Whether nobody knows better than the one who was asked: soon somebody will.
    pub waits: bool,
}

impl Open {
    pub(super) fn new(batch: Batch, lane: u64, asked_us: u64) -> Self {
        Self {
            replies: vec![None; batch.len()],
            batch,
            lane,
            asked_us,
            missed: Vec::new(),
            moved: Vec::new(),
            hops: 0,
            waits: false,
        }
    }

    /// Notes what an answer of `peer` says of where slots are, if it has not run some commands. `late`: checks can ask nobody again.
    pub(super) fn note_moves(&mut self, me: &str, (peer, stood_in): (&Arc<str>, bool), answer: &Answer, late: bool) {
        let Some(replies) = read(answer).filter(|replies| !replies.not_answered.is_empty()) else {
            return;
        };
        self.hops += 1;
        if (late || stood_in) && !self.missed.contains(peer) {
            self.missed.push(Arc::clone(peer));
        }
        for command in &replies.not_answered {
            match &command.why {
                Why::Moved { slot, holder } if holder.name != me && *holder.name != **peer && self.hops <= HOPS_MAX => {
                    if !self.moved.iter().any(|(known, _)| known == slot) {
                        self.moved.push((*slot, holder.name.into()));
                    }
                }
                Why::Moved { .. } | Why::NotHere { .. } => self.waits = true,
            }
        }
    }

    /// Who has a slot, as the one says that was asked last.
    pub(super) fn moved_to(&self, slot: u16) -> Option<&Arc<str>> {
        self.moved.iter().find(|(moved, _)| *moved == slot).map(|(_, to)| to)
    }

    /// Each answer counts for the next question only.
    pub(super) fn forget_moves(&mut self) {
        self.moved.clear();
    }

    /// Takes the answer to some of the commands. Answers which of them were not done and can be sent again.
    pub(super) fn take(&mut self, commands: &[u32], answer: Result<Answer, PeerError>) -> Vec<u32> {
        let failed = match answer {
            Ok(answer) => match whole_or_part(&answer, commands.len()) {
                Some(replies) => return self.fill(commands, &replies),
                // Whoever answers like that has perhaps done it.
                None => PeerError::Protocol,
            },
            Err(PeerError::TooLong) => {
                self.fail(commands, TOO_LONG);
                return Vec::new();
            }
            Err(error) => error,
        };
        let mut again = Vec::new();
        for &index in commands {
            match self.batch.get(index as usize) {
                // One that is not understood would not be the next time either, and may have been done: so ends an answer that was too long.
                Some((spec, ..)) if !failed.may_have_arrived() || may_run_twice(spec, failed) => again.push(index),
                _ => self.replies[index as usize] = Some(UNKNOWN.into()),
            }
        }
        again
    }

    /// As [`Open::take`], of a peer that could not be asked, or whose answer will not come. Checks go to another at once; what only the
    /// holder can do waits until there may be a holder to ask, since without that it would be asked again in the same turn, and for ever.
    pub(super) fn take_failure(&mut self, commands: &[u32], error: PeerError) -> Vec<u32> {
        let again = self.take(commands, Err(error));
        self.hops += 1;
        self.waits |= !again.is_empty() && again.iter().all(|&index| class_of(&self.batch, index) == Class::Other);
        again
    }

    /// As [`Open::take`], for `some` of the commands that were sent together.
    pub(super) fn take_some(&mut self, commands: &[u32], some: &[u32], answer: Result<Answer, PeerError>) -> Vec<u32> {
        let decided: Vec<(u32, Option<Box<[u8]>>)> = commands
            .iter()
            .filter(|index| !some.contains(index))
            .map(|&index| (index, self.replies[index as usize].take()))
            .collect();
        let mut left = self.take(commands, answer);
        left.retain(|index| some.contains(index));
        for (index, reply) in decided {
            self.replies[index as usize] = reply;
        }
        left
    }

    /// Takes replies. Answers which commands were not done.
    pub(super) fn fill(&mut self, commands: &[u32], replies: &Replies) -> Vec<u32> {
        let mut left = Vec::new();
        for (at, &index) in commands.iter().enumerate() {
            if replies.elsewhere(at as u32).is_some() {
                left.push(index);
            } else {
                self.replies[index as usize] = Some(replies.get(at).unwrap_or(UNKNOWN).into());
            }
        }
        left
    }

    pub(super) fn fail(&mut self, commands: &[u32], reply: &[u8]) {
        for &index in commands {
            self.replies[index as usize] = Some(reply.into());
        }
    }

    pub(super) fn finish(self) -> Replies {
        let mut replies = Replies::default();
        for reply in self.replies {
            replies.bytes.extend_from_slice(reply.as_deref().unwrap_or(NOBODY));
            replies.ends.push(replies.bytes.len() as u32);
        }
        replies
    }
}

/// How long a command may wait, and who can decide it.
pub(super) fn class_of(batch: &Batch, index: u32) -> Class {
    batch
        .get(index as usize)
        .map_or(Class::Other, |(spec, ..)| super::class_of(spec))
}

/// The slot of the first key of a command of a batch.
pub(super) fn first_slot(batch: &Batch, index: usize) -> Option<u16> {
    let (spec, _, _, request) = batch.get(index)?;
    let position = spec.key_positions(request).next()?;
    Some(slot_of(request.arg(position)))
}

/// The replies that an answer has, if every command is answered.
pub(super) fn whole(answer: &Answer, commands: usize) -> Option<Replies> {
    whole_or_part(answer, commands).filter(|replies| replies.elsewhere.is_empty())
}

fn read(answer: &Answer) -> Option<wire::Replies<'_>> {
    match answer.kind {
        Kind::Replies => read_message(answer.version, &answer.body).ok(),
        _ => None,
    }
}

/// The replies that an answer has, if it makes sense.
pub(super) fn whole_or_part(answer: &Answer, commands: usize) -> Option<Replies> {
    let replies = read(answer)?;
    let is_sound = replies.ends.len() == commands
        && replies.ends.is_sorted()
        && replies.ends.last().map_or(0, |&end| end as usize) == replies.bytes.len()
        && replies.not_answered.is_sorted_by(|a, b| a.index < b.index)
        && replies
            .not_answered
            .last()
            .is_none_or(|last| (last.index as usize) < commands);
    let elsewhere = replies.not_answered.iter().map(|command| Elsewhere {
        index: command.index,
        slot: match command.why {
            Why::Moved { slot, .. } | Why::NotHere { slot } => slot,
        },
    });
    is_sound.then(|| Replies {
        elsewhere: elsewhere.collect(),
        bytes: replies.bytes.to_vec(),
        ends: replies.ends.into_owned(),
        more: None,
    })
}

/// Whether a command may be done twice: a check, which then counts twice and so admits less; or one that changes nothing, unless the answer
/// would fail in the same way again.
fn may_run_twice(spec: &Spec, failed: PeerError) -> bool {
    let fails_again = matches!(failed, PeerError::NotUnderstood | PeerError::Protocol);
    matches!(spec.run, Run::Check(_)) || (spec.has_flag("readonly") && !fails_again)
}
