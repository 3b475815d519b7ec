//! One such command, stage by stage.

use super::super::More;
use super::through::{Filter, Merge};
use super::{Operation, Outcome};
use crate::data::Typed as _;
use crate::elements::{AT_ONCE_MAX, Gathered, Parts, WalkRest, write_all};
use crate::{CommandError, Env, Rest, STEP_ELEMENTS, Shard};
use smallvec::SmallVec;
use std::ops::Range;
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_store::{Expiry, Place};
use tollgate_values::{Encoding, Set};

/// A set that exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    /// The argument that has its key.
    pub arg: usize,
    place: Place,
    members: usize,
    encoding: Encoding,
}

pub(super) type Sources = SmallVec<[Source; 8]>;

pub(super) struct Run {
    operation: Operation,
    outcome: Outcome,
    first_key: usize,
    /// The arguments that are keys and have not been looked at.
    keys: Range<usize>,
    sources: Sources,
    /// The first of the smallest sources.
    smallest: usize,
    members: usize,
    /// Whether a key does not exist.
    lacks_some: bool,
    /// Whether the first key comes again.
    repeats_first: bool,
    /// Where the reply starts.
    start: usize,
    stage: Stage,
}

enum Stage {
    /// The sets are being looked at.
    Look,
    /// Members of one set are kept or left out by the others.
    Filter(Filter, Sink),
    /// Sets are added to a new one, or taken from it.
    Merge(Merge, Set),
    /// What was kept is copied behind the head.
    Copy(Gathered),
    /// A set is answered.
    Answer(WalkRest<Set>, Set),
    Done,
}

/// Where members go that are kept.
enum Sink {
    /// Their number.
    Count(usize),
    /// The reply, and their number.
    Reply(Gathered, usize),
    Set(Set),
}

impl Run {
    pub(super) fn new(operation: Operation, outcome: Outcome, keys: Range<usize>) -> Self {
        Self {
            operation,
            outcome,
            first_key: keys.start,
            keys,
            sources: Sources::new(),
            smallest: 0,
            members: 0,
            lacks_some: false,
            repeats_first: false,
            start: 0,
            stage: Stage::Look,
        }
    }

    /// Does all of it at once if it is little, else a first step.
    pub(super) fn begin(mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> More {
        self.start = out.len();
        self.look_at_some(shard, env, request)?;
        if !self.keys.is_empty() || self.members > AT_ONCE_MAX {
            return Ok(Some(Box::new(self)));
        }
        if self.operation == Operation::Inter && self.outcome != Outcome::Store {
            self.intersect_at_once(shard, env, out);
            return Ok(None);
        }
        while !self.go_on(shard, env, request, out)? {}
        Ok(None)
    }

    /// The next step; whether it was the last. It fails only before anything is written.
    fn go_on(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Look if self.keys.is_empty() => return self.choose(shard, env, request, out),
            Stage::Look => {
                self.look_at_some(shard, env, request)?;
                Stage::Look
            }
            Stage::Filter(mut filter, mut sink) => {
                let mut is_enough = false;
                if filter.check_some(shard, env, request, &self.sources) {
                    is_enough = sink.take(filter.kept(), env, self.outcome);
                }
                if is_enough || filter.is_done() {
                    return self.finish(sink, shard, env, request, out);
                }
                Stage::Filter(filter, sink)
            }
            Stage::Merge(mut merge, mut set) => {
                if merge.merge_some(shard, env, request, &self.sources, &mut set) {
                    return self.finish(Sink::Set(set), shard, env, request, out);
                }
                Stage::Merge(merge, set)
            }
            Stage::Copy(mut gathered) => {
                if gathered.copy_some(out) {
                    return Ok(true);
                }
                Stage::Copy(gathered)
            }
            Stage::Answer(mut walk, set) => {
                if walk.write_some(&set, &mut ReplyWriter::new(out, env.proto)) {
                    shard.bury(set);
                    return Ok(true);
                }
                Stage::Answer(walk, set)
            }
            Stage::Done => return Ok(true),
        };
        Ok(false)
    }

    fn look_at_some(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>) -> Result<(), CommandError> {
        let end = self.keys.end.min(self.keys.start + STEP_ELEMENTS);
        for arg in self.keys.start..end {
            let key = shard.data_key(env, request.arg(arg))?;
            self.repeats_first |= arg > self.first_key && request.arg(arg) == request.arg(self.first_key);
            let Some((place, set)) = shard.read_at::<Set>(env, &key)? else {
                self.lacks_some = true;
                continue;
            };
            let members = set.len();
            self.sources.push(Source {
                arg,
                place,
                members,
                encoding: set.encoding(),
            });
            if members < self.sources[self.smallest].members {
                self.smallest = self.sources.len() - 1;
            }
            self.members += members;
        }
        self.keys.start = end;
        Ok(())
    }

    /// All sets have been looked at: decides how to go through them, as Redis does, since that decides about the order and the encoding
    /// of the result.
    fn choose(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let seed = shard.hash_seed;
        let intset = Set::new(seed, b"0", 1);
        self.stage = match self.operation {
            Operation::Inter if self.lacks_some => return self.finish(Sink::Set(intset), shard, env, request, out),
            Operation::Inter => {
                self.sources.swap(0, self.smallest);
                let sink = match self.outcome {
                    Outcome::Count { .. } => Sink::Count(0),
                    Outcome::Answer => Sink::Reply(Gathered::default(), 0),
                    Outcome::Store if self.sources[0].encoding == Encoding::Intset => Sink::Set(intset),
                    Outcome::Store => Sink::Set(Set::new(seed, b"", 1)),
                };
                Stage::Filter(Filter::new(true), sink)
            }
            Operation::Union => Stage::Merge(Merge::union(), intset),
            Operation::Diff => {
                let lacks_first = self.sources.first().is_none_or(|source| source.arg != self.first_key);
                if lacks_first || self.repeats_first {
                    return self.finish(Sink::Set(intset), shard, env, request, out);
                }
                if self.sources.len() * self.sources[0].members / 2 <= self.members {
                    Stage::Filter(Filter::new(false), Sink::Set(intset))
                } else {
                    Stage::Merge(Merge::difference(), intset)
                }
            }
        };
        Ok(false)
    }

    /// Answers or stores what came of it.
    fn finish(
        &mut self,
        sink: Sink,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let mut reply = ReplyWriter::new(out, env.proto);
        match (sink, self.outcome) {
            (Sink::Set(set), Outcome::Store) => {
                let members = self.store(set, shard, env, request)?;
                ReplyWriter::new(out, env.proto).int(members as i64);
            }
            (Sink::Set(set), Outcome::Answer) if set.len() > AT_ONCE_MAX => {
                reply.set(set.len());
                self.stage = Stage::Answer(WalkRest::new(self.start, Parts::SET), set);
                return Ok(false);
            }
            (Sink::Set(set), Outcome::Answer) => {
                write_all(&set, &mut reply, Parts::SET);
                shard.bury(set);
            }
            (Sink::Set(set), Outcome::Count { .. }) => reply.int(set.len() as i64),
            (Sink::Count(members), _) => reply.int(members as i64),
            (Sink::Reply(gathered, members), _) => {
                reply.set(members);
                self.stage = Stage::Copy(gathered);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn store(&self, mut set: Set, shard: &mut Shard, env: &Env, request: Request<'_>) -> Result<usize, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        let members = set.len();
        if set.is_empty() {
            shard.remove_entry(&key);
            return Ok(0);
        }
        if self.operation == Operation::Inter {
            set.compact();
        }
        shard.set_value(env, &key, set.into_value(), Expiry::NEVER)?;
        Ok(members)
    }

    /// SINTER and SINTERCARD of few members, without a copy of any.
    fn intersect_at_once(&mut self, shard: &mut Shard, env: &Env, out: &mut Vec<u8>) {
        let mut found = 0;
        let most = match self.outcome {
            Outcome::Count { most } => most,
            _ => usize::MAX,
        };
        if !self.lacks_some {
            self.sources.swap(0, self.smallest);
            let sets = self.sources.iter().filter_map(|source| {
                let stored = shard.store.value(source.place)?;
                Set::of(&stored.value)
            });
            let sets: SmallVec<[&Set; 8]> = sets.collect();
            let mut reply = ReplyWriter::new(out, env.proto);
            if let Some((first, others)) = sets.split_first() {
                let in_all = first
                    .iter()
                    .filter(|member| others.iter().all(|set| set.contains(member)));
                for member in in_all.take(most) {
                    found += 1;
                    if self.outcome == Outcome::Answer {
                        reply.bulk(&member);
                    }
                }
            }
        }
        match self.outcome {
            Outcome::Answer => {
                crate::elements::write_head_before(out, self.start, env.proto, |reply| reply.set(found));
            }
            _ => ReplyWriter::new(out, env.proto).int(found as i64),
        }
    }
}

impl Sink {
    /// Takes members, and says whether those are enough.
    fn take(&mut self, members: impl ExactSizeIterator<Item = Box<[u8]>>, env: &Env, outcome: Outcome) -> bool {
        match self {
            Sink::Count(count) => {
                *count += members.len();
                if let Outcome::Count { most } = outcome {
                    *count = most.min(*count);
                    return *count == most;
                }
            }
            Sink::Reply(gathered, count) => {
                *count += members.len();
                let mut reply = ReplyWriter::new(&mut gathered.encoded, env.proto);
                members.for_each(|member| reply.bulk(&member));
            }
            Sink::Set(set) => members.for_each(|member| {
                set.add(&member);
            }),
        }
        false
    }
}

impl Rest for Run {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        self.go_on(shard, env, request, out).unwrap_or_else(|error| {
            // Nothing is written yet: a set was of another type, or there is no room for the result.
            error.write(out, env.proto);
            true
        })
    }
}
