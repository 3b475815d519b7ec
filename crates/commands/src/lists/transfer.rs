//! LMOVE, RPOPLPUSH, and what their blocking forms need.

use super::parse_end;
use crate::data::Edit;
use crate::table::Rest;
use crate::{CommandError, Env, Shard};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::{End, List};

/// `LMOVE source destination LEFT|RIGHT LEFT|RIGHT`
pub(crate) fn lmove(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let (from, to) = (parse_end(request.arg(3))?, parse_end(request.arg(4))?);
    answer(from, to, shard, env, request, out)
}

/// `RPOPLPUSH source destination`
pub(crate) fn rpoplpush(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    answer(End::Right, End::Left, shard, env, request, out)
}

fn answer(
    from: End,
    to: End,
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    if !move_element(shard, env, (request.arg(1), from), (request.arg(2), to), out)? {
        ReplyWriter::new(out, env.proto).null();
    }
    Ok(None)
}

/// Moves an element from an end of one list to an end of another, and answers with it; whether there was one. If not, nothing is
/// written.
///
/// # Errors
/// One of the keys holds something else; out of memory. Nothing has changed then.
pub(crate) fn move_element(
    shard: &mut Shard,
    env: &Env,
    (source, from): (&[u8], End),
    (destination, to): (&[u8], End),
    out: &mut Vec<u8>,
) -> Result<bool, CommandError> {
    let source_key = shard.data_key(env, source)?;
    shard.make_room_for_value()?;
    let Some((place, list)) = shard.read_at::<List>(env, &source_key)? else {
        return Ok(false);
    };
    let index = match from {
        End::Left => 0,
        End::Right => list.len() - 1,
    };
    // A list has an element.
    let element: Box<[u8]> = list.get(index).unwrap_or_default().into();
    if source == destination {
        // One change, so that a list of one element does not go in between.
        shard.change_at(&source_key, place, |edit: &mut Edit<'_, List>| {
            edit.remove_end(from, 1);
            edit.expect(element.len());
            edit.push(to, &element);
        });
    } else {
        let destination = shard.data_key(env, destination)?;
        shard.edit(
            env,
            &destination,
            |_| List::new(),
            |edit: &mut Edit<'_, List>| {
                edit.expect(element.len());
                edit.push(to, &element);
            },
        )?;
        // Looked up again: the destination may have changed where it is.
        let place = shard.read_at::<List>(env, &source_key)?.map(|(place, _)| place);
        if let Some(place) = place {
            shard.change_at(&source_key, place, |edit: &mut Edit<'_, List>| edit.remove_end(from, 1));
        }
    }
    ReplyWriter::new(out, env.proto).bulk(&element);
    Ok(true)
}
