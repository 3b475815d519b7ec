//! ZREMRANGEBYLEX, ZREMRANGEBYRANK, ZREMRANGEBYSCORE.

use super::{By, Span};
use crate::data::Edit;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::SortedSet;

/// `ZREMRANGEBYRANK key start stop`
pub(crate) fn zremrangebyrank(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    remove(By::Rank, shard, env, request, out)
}

/// `ZREMRANGEBYSCORE key min max`
pub(crate) fn zremrangebyscore(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    remove(By::Score, shard, env, request, out)
}

/// `ZREMRANGEBYLEX key min max`
pub(crate) fn zremrangebylex(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    remove(By::Lex, shard, env, request, out)
}

fn remove(
    by: By,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let span = Span::parse(by, request.arg(2), request.arg(3))?;
    let key = shard.data_key(env, request.arg(1))?;
    let set = shard.read::<SortedSet>(env, &key)?;
    let ranks = set.map_or(0..0, |set| span.resolve(set, false));
    let work = RemoveRanks {
        first: ranks.start,
        left: ranks.len(),
        removed: 0,
    };
    begin(work, shard, env, request, out)
}

/// A removal of members by their ranks that has begun. Those after the first move up as they go.
struct RemoveRanks {
    first: usize,
    left: usize,
    removed: usize,
}

impl Work for RemoveRanks {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let here = self.left.min(STEP_ELEMENTS);
        if here > 0 {
            let key = shard.data_key(env, request.arg(1))?;
            let found = shard.read_at::<SortedSet>(env, &key)?.map(|(place, _)| place);
            if let Some(place) = found {
                let ranks = self.first..self.first + here;
                shard.change_at(&key, place, |edit: &mut Edit<'_, SortedSet>| edit.remove_ranks(ranks));
                self.removed += here;
                self.left -= here;
            } else {
                self.left = 0;
            }
        }
        if self.left > 0 {
            return Ok(false);
        }
        ReplyWriter::new(out, env.proto).int(self.removed as i64);
        Ok(true)
    }
}
