//! ZRANDMEMBER.

use super::Show;
use crate::elements::parse_count;
use crate::table::{Rest, STEP_ELEMENTS};
use crate::work::{Work, begin};
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::{Sample, SortedSet};

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub(crate) fn zrandmember(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let Some(count) = request.get(2) else {
        return one(shard, env, request, out).map(|()| None);
    };
    let count = parse_count(count)?;
    let show = match (request.len(), request.get(3)) {
        (3, _) => Show::Members,
        (4, Some(word)) if word.eq_ignore_ascii_case(b"WITHSCORES") => {
            if count.unsigned_abs() > i64::MAX as u64 / 2 {
                return Err(CommandError::Refused("value is out of range"));
            }
            Show::with_scores(env)
        }
        _ => return Err(CommandError::Syntax),
    };
    let key = shard.data_key(env, request.arg(1))?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let picks_max = shard.random_picks_max;
    let picks = match shard.read::<SortedSet>(env, &key)? {
        None => Picks::Any(0),
        Some(set) if count >= 0 => Picks::Distinct(set.sample(wanted)),
        Some(_) if wanted > picks_max => return Err(CommandError::TooManyPicks(picks_max)),
        Some(_) => Picks::Any(wanted),
    };
    show.head(&mut ReplyWriter::new(out, env.proto), picks.left());
    begin(Pick { picks, show }, shard, env, request, out)
}

fn one(shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let draw = shard.next_draw();
    let key = shard.data_key(env, request.arg(1))?;
    let picked = shard.read::<SortedSet>(env, &key)?.and_then(|set| set.random(draw));
    let mut reply = ReplyWriter::new(out, env.proto);
    match picked {
        Some((member, _)) => reply.bulk(member),
        None => reply.null(),
    }
    Ok(())
}

enum Picks {
    /// Each member once.
    Distinct(Sample),
    /// So many more, whichever they are.
    Any(usize),
}

impl Picks {
    fn left(&self) -> usize {
        match self {
            Self::Distinct(sample) => sample.left(),
            Self::Any(left) => *left,
        }
    }
}

/// A ZRANDMEMBER with a count that has begun, with the head of its reply.
struct Pick {
    picks: Picks,
    show: Show,
}

impl Work for Pick {
    fn go(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CommandError> {
        let here = self.picks.left().min(STEP_ELEMENTS);
        let mut draws = [0; STEP_ELEMENTS];
        draws[..here].fill_with(|| shard.next_draw());
        let set = shard.value_of_arg::<SortedSet>(env, request, 1);
        let mut reply = ReplyWriter::new(out, env.proto);
        for draw in &draws[..here] {
            let picked = match &mut self.picks {
                Picks::Distinct(sample) => {
                    let rank = sample.next(|| *draw);
                    set.zip(rank).and_then(|(set, rank)| set.nth(rank))
                }
                Picks::Any(left) => {
                    *left -= 1;
                    set.and_then(|set| set.random(*draw))
                }
            };
            match picked {
                Some(member) => self.show.member(&mut reply, member),
                None => self.show.missing(&mut reply, 1),
            }
        }
        Ok(self.picks.left() == 0)
    }
}
