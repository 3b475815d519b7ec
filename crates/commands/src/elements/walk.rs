//! All elements: HGETALL, HKEYS, HVALS, SMEMBERS.

use super::{AT_ONCE_MAX, Elements, Part};
use crate::data::{Edit, Typed};
use crate::{CommandError, Env, Rest, STEP_ELEMENTS, Shard};
use std::marker::PhantomData;
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_values::Value;

/// What is written of all elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Of each.
    pub part: Part,
    /// What they are together.
    pub kind: Kind,
}

/// The kinds of replies that hold elements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Array,
    Map,
    Set,
}

impl Parts {
    /// `HKEYS`
    pub(crate) const FIELDS: Parts = Parts {
        part: Part::Name,
        kind: Kind::Array,
    };
    /// `HVALS`
    pub(crate) const VALUES: Parts = Parts {
        part: Part::Value,
        kind: Kind::Array,
    };
    /// `HGETALL`
    pub(crate) const MAP: Parts = Parts {
        part: Part::Both,
        kind: Kind::Map,
    };
    /// `SMEMBERS`
    pub(crate) const SET: Parts = Parts {
        part: Part::Name,
        kind: Kind::Set,
    };

    /// The head, for so many elements.
    pub(crate) fn write_head(self, reply: &mut ReplyWriter<'_>, elements: usize) {
        match self.kind {
            Kind::Array => reply.array(self.part.replies(elements, reply)),
            Kind::Map => reply.map(elements),
            Kind::Set => reply.set(elements),
        }
    }
}

/// Answers all elements of the value of argument 1; none if there is no such key.
pub(crate) fn walk<T: Elements>(
    shard: &mut Shard,
    env: &Env,
    request: Request<'_>,
    out: &mut Vec<u8>,
    parts: Parts,
) -> Result<Option<Box<dyn Rest>>, CommandError> {
    let key = shard.data_key(env, request.arg(1))?;
    let value = shard.read::<T>(env, &key)?;
    let start = out.len();
    let mut reply = ReplyWriter::new(out, env.proto);
    match value {
        None => parts.write_head(&mut reply, 0),
        Some(value) if value.count() <= AT_ONCE_MAX => write_all(value, &mut reply, parts),
        Some(value) => {
            parts.write_head(&mut reply, value.count());
            return Ok(Some(Box::new(WalkRest::<T>::new(start, parts))));
        }
    }
    Ok(None)
}

/// Writes all elements, with the head.
pub(crate) fn write_all<T: Elements>(value: &T, reply: &mut ReplyWriter<'_>, parts: Parts) {
    parts.write_head(reply, value.count());
    value.show_all(&mut |name, value| parts.part.write(reply, name, value));
}

/// The elements of the value of argument 1, from a cursor on.
pub(crate) struct WalkRest<T> {
    /// Where the reply starts.
    start: usize,
    parts: Parts,
    cursor: u64,
    value: PhantomData<fn() -> T>,
}

impl<T: Elements> WalkRest<T> {
    /// All elements. The head is written at `start`.
    pub(crate) fn new(start: usize, parts: Parts) -> Self {
        Self {
            start,
            parts,
            cursor: 0,
            value: PhantomData,
        }
    }

    /// What is written of each.
    pub(crate) fn part(&self) -> Part {
        self.parts.part
    }

    /// Writes some elements of a value, and says whether those were the last.
    pub(crate) fn write_some(&mut self, value: &T, reply: &mut ReplyWriter<'_>) -> bool {
        let part = self.parts.part;
        let mut show = |name: &[u8], value: Option<&[u8]>| part.write(reply, name, value);
        self.cursor = value.show_some(self.cursor, STEP_ELEMENTS, &mut show);
        self.cursor == 0
    }

    /// Answers as if the key did not exist: it expired or was dropped for want of memory meanwhile.
    pub(crate) fn is_gone(&self, env: &Env, out: &mut Vec<u8>) -> bool {
        out.truncate(self.start);
        self.parts.write_head(&mut ReplyWriter::new(out, env.proto), 0);
        true
    }
}

impl<T: Elements> Rest for WalkRest<T> {
    fn step(&mut self, shard: &mut Shard, env: &Env, request: Request<'_>, out: &mut Vec<u8>) -> bool {
        match shard.value_of_arg::<T>(env, request, 1) {
            Some(value) => self.write_some(value, &mut ReplyWriter::new(out, env.proto)),
            None => self.is_gone(env, out),
        }
    }
}

impl Shard {
    /// The value of the key in an argument, which was there in the step before.
    pub(crate) fn value_of_arg<T: Typed>(&mut self, env: &Env, request: Request<'_>, at: usize) -> Option<&T> {
        let key = self.data_key(env, request.arg(at)).ok()?;
        let place = self.store.find(&key)?;
        self.store.value(place).and_then(|stored| T::of(&stored.value))
    }

    /// Changes the value of the key in an argument, if it is still there.
    pub(crate) fn change_arg<T: Elements, R>(
        &mut self,
        env: &Env,
        request: Request<'_>,
        at: usize,
        change: impl FnOnce(&mut Edit<'_, T>) -> R,
    ) -> Option<R> {
        let key = self.data_key(env, request.arg(at)).ok()?;
        let place = self.store.find(&key)?;
        self.store.value(place).and_then(|stored| T::of(&stored.value))?;
        self.change_at(&key, place, change)
    }

    /// Drops a value that no key holds, later if it is large.
    pub(crate) fn bury<T: Elements>(&mut self, value: T) {
        let value: Value = value.into_value();
        self.store.bury(value);
    }
}
