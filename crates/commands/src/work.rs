//! Commands that may take long, written as a state and one function that goes on with it.

use crate::table::{EachKeyFn, Rest};
use crate::{CommandError, Env, STEP_ELEMENTS, Shard};
use tollgate_protocol::{ReplyWriter, Request};

/// A command that has begun.
pub(crate) trait Work {
    /// Goes on with about [`STEP_ELEMENTS`](crate::STEP_ELEMENTS) elements; whether that was the last of it.
    ///
    /// # Errors
    /// Only as long as nothing was written and nothing has changed; the command is over then.
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError>;
}

/// Begins with some work; what is left of it goes on in steps.
///
/// # Errors
/// Those of the work.
pub(crate) fn begin(
    mut work: impl Work + 'static,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    if work.go(shard, env, request, out)? {
        return Ok(None);
    }
    let rest = steps(
        move |shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>| match work
            .go(shard, env, request, out)
        {
            Ok(done) => done,
            Err(error) => {
                error.write(out, env.proto);
                true
            }
        },
    );
    Ok(Some(rest))
}

/// The rest of a command from a function that makes one step of it.
pub(crate) fn steps(step: impl FnMut(&mut Shard, &Env, Request<'_>, &mut Vec<u8>) -> bool + 'static) -> Box<dyn Rest> {
    Box::new(Steps(step))
}

struct Steps<F>(F);

impl<F: FnMut(&mut Shard, &Env, Request<'_>, &mut Vec<u8>) -> bool> Rest for Steps<F> {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        (self.0)(shard, env, request, out)
    }
}

/// A command that does the same to each of its keys, and answers the sum.
pub(crate) struct EachKey {
    run: EachKeyFn,
    /// The key that comes next.
    at: usize,
    sum: i64,
}

impl EachKey {
    /// Before the first key.
    pub(crate) fn new(run: EachKeyFn) -> Self {
        Self { run, at: 1, sum: 0 }
    }
}

impl Work for EachKey {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let end = request.len().min(self.at + STEP_ELEMENTS);
        for at in self.at..end {
            self.sum += (self.run)(shard, env, request.arg(at))?;
        }
        self.at = end;
        if end < request.len() {
            return Ok(false);
        }
        ReplyWriter::new(out, env.proto).int(self.sum);
        Ok(true)
    }
}

/// What a pop found in a key.
pub enum Popped {
    /// No value; nothing was written.
    Nothing,
    /// All that was asked for; the reply is written.
    All,
    /// More than a step takes out; the reply is written so far.
    More(Box<dyn Rest>),
}

/// What is found in the first key that has something, of those at some positions.
///
/// # Errors
/// Those of a pop.
pub(crate) fn first_of(
    mut keys: std::ops::Range<usize>,
    mut pop: impl FnMut(usize) -> Result<Popped, CommandError>,
) -> Result<Popped, CommandError> {
    let found = keys.find_map(|at| match pop(at) {
        Ok(Popped::Nothing) => None,
        found => Some(found),
    });
    found.unwrap_or(Ok(Popped::Nothing))
}

/// Pops from the first key that exists of those at some positions: what `pop` finds there. Without one, null is written.
pub(crate) fn pop_first(
    keys: std::ops::Range<usize>,
    pop: impl Fn(&mut Shard, &Env, Request<'_>, usize, &mut Vec<u8>) -> Result<Popped, CommandError> + 'static,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    begin(PopFirst { keys, pop, rest: None }, shard, env, request, out)
}

struct PopFirst<P> {
    keys: std::ops::Range<usize>,
    pop: P,
    rest: Option<Box<dyn Rest>>,
}

impl<P> Work for PopFirst<P>
where
    P: Fn(&mut Shard, &Env, Request<'_>, usize, &mut Vec<u8>) -> Result<Popped, CommandError>,
{
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        if let Some(rest) = &mut self.rest {
            return Ok(rest.step(shard, env, request, out));
        }
        for at in self.keys.by_ref().take(STEP_ELEMENTS) {
            match (self.pop)(shard, env, request, at, out)? {
                Popped::Nothing => {}
                Popped::All => return Ok(true),
                Popped::More(rest) => {
                    self.rest = Some(rest);
                    return Ok(false);
                }
            }
        }
        if !self.keys.is_empty() {
            return Ok(false);
        }
        ReplyWriter::new(out, env.proto).null_array();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::with_line;
    use crate::test_shard::TestShards;
    use crate::{CheckQueue, CommandTable, LastCommand, Step};

    #[test]
    fn what_is_done_to_many_keys_goes_in_steps() {
        let mut shards = TestShards::new(1);
        let names: Vec<String> = (0..3 * STEP_ELEMENTS).map(|number| format!("k{number}")).collect();
        let pairs = names.join(" x ");
        assert_eq!(shards.run(&format!("MSET {pairs} x")), "+OK\r\n");
        let env = shards.env();
        let (table, mut queue, mut out) = (CommandTable::default(), CheckQueue::default(), Vec::new());
        let shard = &mut shards.shards[0];
        let mut steps = 1;
        with_line(&format!("DEL {}", names.join(" ")), |request| {
            let (spec, _) = table.resolve(request, &mut LastCommand::default()).unwrap();
            let Step::More(mut rest) = shard.run(&env, &mut queue, spec, request, &mut out) else {
                panic!("it is done at once");
            };
            while !shard.go_on(&env, &mut queue, &mut *rest, request, &mut out) {
                assert!(out.is_empty());
                steps += 1;
            }
        });
        assert_eq!((steps, &out[..]), (2, &b":1536\r\n"[..]));
        assert_eq!(shards.run("DBSIZE"), ":0\r\n");
    }
}
