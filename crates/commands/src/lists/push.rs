//! LPUSH, LPUSHX, RPUSH, RPUSHX.

use crate::data::Edit;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::{End, List};

/// `LPUSH key element [element ...]`
pub(crate) fn lpush(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    begin(Push::new(End::Left, true), shard, env, request, out)
}

/// `RPUSH key element [element ...]`
pub(crate) fn rpush(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    begin(Push::new(End::Right, true), shard, env, request, out)
}

/// `LPUSHX key element [element ...]`
pub(crate) fn lpushx(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    begin(Push::new(End::Left, false), shard, env, request, out)
}

/// `RPUSHX key element [element ...]`
pub(crate) fn rpushx(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    begin(Push::new(End::Right, false), shard, env, request, out)
}

/// A push that has begun.
struct Push {
    end: End,
    creates: bool,
    /// The position of the next element.
    at: usize,
    len: usize,
}

impl Push {
    fn new(end: End, creates: bool) -> Self {
        Self {
            end,
            creates,
            at: 2,
            len: 0,
        }
    }

    /// Pushes up to a step's elements.
    fn push_some(&mut self, edit: &mut Edit<'_, List>, request: Request<'_>) {
        if self.at == 2 {
            edit.expect(request.iter().skip(2).map(<[u8]>::len).sum());
        }
        let end = request.len().min(self.at + STEP_ELEMENTS);
        for at in self.at..end {
            edit.push(self.end, request.arg(at));
        }
        self.at = end;
        self.len = edit.len();
    }
}

impl Work for Push {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let key = shard.data_key(env, request.arg(1))?;
        if self.at == 2 && self.creates {
            shard.edit(env, &key, |_| List::new(), |edit| self.push_some(edit, request))?;
        } else {
            if self.at == 2 {
                shard.make_room_for_value()?;
            }
            match shard.read_at::<List>(env, &key)?.map(|(place, _)| place) {
                Some(place) => drop(shard.change_at(&key, place, |edit| self.push_some(edit, request))),
                None => self.at = request.len(),
            }
        }
        if self.at < request.len() {
            return Ok(false);
        }
        ReplyWriter::new(out, env.proto).int(self.len as i64);
        Ok(true)
    }
}
