//! ZDIFF, ZINTER, ZINTERCARD, ZUNION, and their storing forms.
//!
//! Members are taken from an input a chunk at a time; an intersection or a difference looks the chunk up in one other input after
//! the other, and what is left of it goes into the result. So no step is long, however many inputs there are.

mod members;

use super::{Show, store_result, take_ranks};
use crate::double::parse_double;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin};
use crate::{CommandError, Env, Shard};
use members::{Aggregate, Chunk, Members, members_of, or_zero};
use tollgate_protocol::{ReplyWriter, Request, parse_integer};
use tollgate_values::{Score, SortedSet, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Union,
    Inter,
    Diff,
    /// Only how many members ZINTER would answer.
    InterCard,
}

macro_rules! commands {
    ($($(#[doc = $syntax:literal])+ $name:ident: $op:ident, $stores:literal;)*) => {
        $(
            $(#[doc = $syntax])+
            pub(crate) fn $name(
                shard: &mut Shard,
                env: &Env,
                request: Request<'_>,
                out: &mut Vec<u8>,
            ) -> Result<Option<Box<dyn Rest>>, CommandError> {
                combine(Op::$op, stringify!($name), $stores, shard, env, request, out)
            }
        )*
    };
}

commands! {
    /// `ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]`
    zunion: Union, false;
    /// `ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]`
    zinter: Inter, false;
    /// `ZDIFF numkeys key [key ...] [WITHSCORES]`
    zdiff: Diff, false;
    /// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
    zintercard: InterCard, false;
    /// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]`
    zunionstore: Union, true;
    /// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]`
    zinterstore: Inter, true;
    /// `ZDIFFSTORE destination numkeys key [key ...]`
    zdiffstore: Diff, true;
}

fn combine(
    op: Op,
    name: &str,
    stores: bool,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let counted = if stores { 2 } else { 1 };
    let inputs = parse_integer(request.arg(counted)).ok_or(CommandError::NotAnInteger)?;
    if inputs < 1 {
        let text = format!("at least 1 input key is needed for '{name}' command");
        return Err(CommandError::Other(text));
    }
    let first = counted + 1;
    let inputs = usize::try_from(inputs)
        .ok()
        .filter(|&inputs| inputs <= request.len() - first)
        .ok_or(CommandError::Syntax)?;
    let combination = Combination {
        op,
        stores,
        phase: Phase::Inputs,
        inputs: Vec::with_capacity(inputs.min(STEP_ELEMENTS)),
        count: inputs,
        at: first,
        weights_left: 0,
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: usize::MAX,
        source: 0,
        cursor: Some(0),
        chunk: Chunk::default(),
        other: 0,
        result: SortedSet::new(shard.hash_seed),
        members: 0,
    };
    begin(combination, shard, env, request, out)
}

/// A key that members come from.
#[derive(Debug, Clone, Copy)]
struct Input {
    /// Its position in the request.
    at: usize,
    weight: f64,
    members: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The inputs are looked up.
    Inputs,
    /// The options are read. Redis looks the keys up before.
    Options,
    /// The members are combined.
    Members,
    /// The result is written.
    Reply,
}

/// A command of this kind that has begun.
struct Combination {
    op: Op,
    stores: bool,
    phase: Phase,
    inputs: Vec<Input>,
    /// How many keys there are.
    count: usize,
    /// The position of the argument to be read next; in the end, the rank of the member to be written next.
    at: usize,
    /// Weights that are still to be read.
    weights_left: usize,
    aggregate: Aggregate,
    with_scores: bool,
    /// The largest number that ZINTERCARD answers.
    limit: usize,
    /// The input from which the chunk is, or will be.
    source: usize,
    /// Where the next chunk of that input begins.
    cursor: Option<u64>,
    chunk: Chunk,
    /// The input in which the chunk is looked up next; 0 if there is no chunk.
    other: usize,
    result: SortedSet,
    /// Members that ZINTERCARD has counted.
    members: usize,
}

impl Work for Combination {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let mut budget = STEP_ELEMENTS;
        if self.phase == Phase::Inputs && self.read_inputs(shard, env, request, &mut budget)? {
            self.phase = Phase::Options;
        }
        if self.phase == Phase::Options && self.read_options(request, &mut budget)? {
            if self.op != Op::Diff {
                self.inputs.sort_by_key(|input| input.members);
            }
            self.phase = Phase::Members;
        }
        if self.phase == Phase::Members && self.combine_some(shard, env, request, &mut budget)? {
            self.phase = Phase::Reply;
            self.at = 0;
        }
        Ok(self.phase == Phase::Reply && self.answer(shard, env, request, out)?)
    }
}

impl Combination {
    fn read_inputs(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        budget: &mut usize,
    ) -> Result<bool, CommandError> {
        while self.inputs.len() < self.count {
            if *budget == 0 {
                return Ok(false);
            }
            *budget -= 1;
            let key = shard.data_key(env, request.arg(self.at))?;
            let members = members_of(shard, env, &key)?.map_or(0, Members::len);
            self.inputs.push(Input {
                at: self.at,
                weight: 1.0,
                members,
            });
            self.at += 1;
        }
        Ok(true)
    }

    fn read_options(&mut self, request: Request<'_>, budget: &mut usize) -> Result<bool, CommandError> {
        while let Some(word) = request.get(self.at) {
            if *budget == 0 {
                return Ok(false);
            }
            *budget -= 1;
            if self.weights_left > 0 {
                let weight = parse_double(word).ok_or(CommandError::Refused("weight value is not a float"))?;
                self.inputs[self.count - self.weights_left].weight = weight;
                self.weights_left -= 1;
                self.at += 1;
                continue;
            }
            let left = request.len() - self.at;
            let aggregates = matches!(self.op, Op::Union | Op::Inter);
            let value = request.get(self.at + 1);
            self.at += 1;
            match value {
                _ if aggregates && left > self.count && word.eq_ignore_ascii_case(b"WEIGHTS") => {
                    self.weights_left = self.count;
                }
                Some(value) if aggregates && word.eq_ignore_ascii_case(b"AGGREGATE") => {
                    self.aggregate = Aggregate::parse(value)?;
                    self.at += 1;
                }
                Some(value) if self.op == Op::InterCard && word.eq_ignore_ascii_case(b"LIMIT") => {
                    let limit = parse_integer(value).and_then(|limit| usize::try_from(limit).ok());
                    self.limit = match limit.ok_or(CommandError::Refused("LIMIT can't be negative"))? {
                        0 => usize::MAX,
                        limit => limit,
                    };
                    self.at += 1;
                }
                _ if !self.stores && self.op != Op::InterCard && word.eq_ignore_ascii_case(b"WITHSCORES") => {
                    self.with_scores = true;
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(true)
    }

    /// Whether no input is left to take members from.
    fn is_over(&self) -> bool {
        match self.op {
            Op::Union => self.source >= self.inputs.len(),
            _ => self.source > 0 || self.inputs[0].members == 0 || self.members >= self.limit,
        }
    }

    fn combine_some(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        budget: &mut usize,
    ) -> Result<bool, CommandError> {
        while !self.is_over() {
            if *budget == 0 {
                return Ok(false);
            }
            let input = match self.other {
                0 => self.inputs[self.source],
                other => self.inputs[other],
            };
            let key = shard.data_key(env, request.arg(input.at))?;
            let members = members_of(shard, env, &key)?;
            if self.other == 0 {
                self.take_chunk(members, input.weight);
                self.other = match self.op {
                    Op::Union => self.inputs.len(),
                    _ => 1,
                };
            } else {
                self.look_up(members, input.weight);
                self.other += 1;
            }
            *budget = budget.saturating_sub(1 + self.chunk.ends.len());
            if self.other >= self.inputs.len() || self.chunk.ends.is_empty() {
                self.finish_chunk();
            }
        }
        Ok(true)
    }

    /// Fills the chunk with the next members of an input.
    fn take_chunk(&mut self, members: Option<Members<'_>>, weight: f64) {
        let Self { op, chunk, cursor, .. } = self;
        chunk.clear();
        *cursor = members.and_then(|members| {
            members.chunk(cursor.unwrap_or(0), &mut |member, score| {
                let score = match op {
                    Op::Diff => score,
                    _ => or_zero(weight * score),
                };
                chunk.push(member, score);
            })
        });
    }

    /// Keeps of the chunk what is to stay in view of another input.
    fn look_up(&mut self, members: Option<Members<'_>>, weight: f64) {
        let Self {
            op, aggregate, chunk, ..
        } = self;
        chunk.retain(|member, score| {
            let other = members.and_then(|members| members.score(member));
            match op {
                Op::Diff => other.is_none().then_some(score),
                _ => other.map(|other| aggregate.of(score, weight * other)),
            }
        });
    }

    /// Adds what is left of the chunk to the result.
    fn finish_chunk(&mut self) {
        let Self {
            op,
            aggregate,
            chunk,
            result,
            ..
        } = self;
        for (member, mut score) in chunk.iter().filter(|_| *op != Op::InterCard) {
            if *op == Op::Union
                && let Some(before) = result.score(member)
            {
                score = aggregate.of(before.get(), score);
                if score == 0.0 && before.get() == 0.0 {
                    // Zeros are equal but not the same: without this, the sign of the first would stay.
                    result.remove(member);
                }
            }
            if score == 0.0 && score.is_sign_negative() {
                // A listpack does not keep the sign, and Redis combines in a skiplist.
                result.expect(usize::MAX, 0);
            }
            // No aggregate is NaN.
            result.insert(member, Score::new(score).unwrap_or_default());
        }
        self.members += self.chunk.ends.len();
        self.other = 0;
        if self.cursor.is_none() {
            self.source += 1;
            self.cursor = Some(0);
        }
    }

    fn answer(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        if self.op == Op::InterCard {
            ReplyWriter::new(out, env.proto).int(self.members.min(self.limit) as i64);
            return Ok(true);
        }
        if self.stores {
            let result = std::mem::replace(&mut self.result, SortedSet::new(shard.hash_seed));
            store_result(shard, env, request.arg(1), result, out)?;
            return Ok(true);
        }
        let show = if self.with_scores {
            Show::with_scores(env)
        } else {
            Show::Members
        };
        let mut reply = ReplyWriter::new(out, env.proto);
        if self.at == 0 {
            show.head(&mut reply, self.result.len());
        }
        let mut left = self.at..self.result.len();
        for member in self.result.range(take_ranks(&mut left, STEP_ELEMENTS, false)) {
            show.member(&mut reply, member);
        }
        self.at = left.start;
        if !left.is_empty() {
            return Ok(false);
        }
        if self.result.len() > STEP_ELEMENTS {
            // Freed some members at a time.
            let result = std::mem::replace(&mut self.result, SortedSet::new(shard.hash_seed));
            shard.store.bury(Value::SortedSet(Box::new(result)));
        }
        Ok(true)
    }
}
