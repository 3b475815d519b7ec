//! Commands that may take long, written as a state and one function that goes on with it.

use crate::table::Rest;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::Request;

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
        for at in self.keys.by_ref().take(crate::STEP_ELEMENTS) {
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
        tollgate_protocol::ReplyWriter::new(out, env.proto).null_array();
        Ok(true)
    }
}
