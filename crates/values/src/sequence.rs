//! A long sequence in chunks, which knows how many elements are before each.

use crate::allocation::Buffer;

/// Most chunks of a group.
const GROUP_CHUNKS: usize = if cfg!(test) { 4 } else { 128 };

/// A bounded run of elements.
pub(crate) trait Chunk: Default {
    /// How many elements.
    fn len(&self) -> usize;
    /// What it has allocated, without itself. O(1).
    fn allocated_bytes(&self) -> usize;
    /// Drops the last elements, down to `len`.
    fn truncate(&mut self, len: usize);
}

/// Chunks in order, in groups. No chunk is empty, unless it is the only one.
///
/// A chunk is found by rank or by comparing in O(groups + chunks of a group); a hundred million elements are about 2,000 groups.
/// Inserting or removing one moves at most a group's chunks, and at times the list of groups.
pub(crate) struct Sequence<C> {
    body: Body<C>,
    len: usize,
    bytes: usize,
}

#[derive(Clone)]
enum Body<C> {
    One(C),
    Many(Vec<Group<C>>),
}

#[derive(Clone)]
struct Group<C> {
    chunks: Vec<C>,
    len: usize,
}

impl<C> Group<C> {
    fn new(chunks: Vec<C>) -> Group<C>
    where
        C: Chunk,
    {
        let len = chunks.iter().map(Chunk::len).sum();
        Group { chunks, len }
    }
}

/// Which chunk. Good until a chunk is inserted or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    group: u32,
    chunk: u32,
}

impl At {
    pub(crate) const FIRST: At = At { group: 0, chunk: 0 };

    fn new(group: usize, chunk: usize) -> At {
        At {
            group: group as u32,
            chunk: chunk as u32,
        }
    }

    fn indices(self) -> (usize, usize) {
        (self.group as usize, self.chunk as usize)
    }
}

impl<C: Chunk + Clone> Clone for Sequence<C> {
    /// O(elements).
    fn clone(&self) -> Sequence<C> {
        let mut copy = Sequence {
            body: self.body.clone(),
            len: self.len,
            bytes: 0,
        };
        // Copies of buffers have no room for more.
        copy.bytes = copy.count_bytes();
        copy
    }
}

impl<C: Chunk> Sequence<C> {
    fn count_bytes(&self) -> usize {
        let chunks: usize = self.chunks_from(At::FIRST).map(Chunk::allocated_bytes).sum();
        let Body::Many(groups) = &self.body else { return chunks };
        let buffers: usize = groups.iter().map(|group| group.chunks.buffer_bytes()).sum();
        chunks + buffers + groups.buffer_bytes()
    }

    pub(crate) fn new(only: C) -> Sequence<C> {
        Sequence {
            len: only.len(),
            bytes: only.allocated_bytes(),
            body: Body::One(only),
        }
    }

    /// Elements of all chunks. O(1).
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What the sequence and its chunks have allocated. O(1).
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is no chunk but one. O(1).
    pub(crate) fn is_one(&self) -> bool {
        matches!(self.body, Body::One(_))
    }

    pub(crate) fn chunk(&self, at: At) -> &C {
        let (group, chunk) = at.indices();
        match &self.body {
            Body::One(only) => only,
            Body::Many(groups) => &groups[group].chunks[chunk],
        }
    }

    /// Changes a chunk. O(1), and what the change takes.
    pub(crate) fn edit<R>(&mut self, at: At, change: impl FnOnce(&mut C) -> R) -> R {
        let (group, chunk) = at.indices();
        let (chunk, group_len) = match &mut self.body {
            Body::One(only) => (only, None),
            Body::Many(groups) => {
                let group = &mut groups[group];
                (&mut group.chunks[chunk], Some(&mut group.len))
            }
        };
        let (len, bytes) = (chunk.len(), chunk.allocated_bytes());
        let result = change(chunk);
        self.len = self.len - len + chunk.len();
        self.bytes = self.bytes - bytes + chunk.allocated_bytes();
        if let Some(group_len) = group_len {
            *group_len = *group_len - len + chunk.len();
        }
        result
    }

    pub(crate) fn last(&self) -> At {
        match &self.body {
            Body::One(_) => At::FIRST,
            Body::Many(groups) => At::new(groups.len() - 1, groups[groups.len() - 1].chunks.len() - 1),
        }
    }

    pub(crate) fn next(&self, at: At) -> Option<At> {
        let Body::Many(groups) = &self.body else { return None };
        let (group, chunk) = at.indices();
        if chunk + 1 < groups[group].chunks.len() {
            Some(At::new(group, chunk + 1))
        } else {
            (group + 1 < groups.len()).then(|| At::new(group + 1, 0))
        }
    }

    pub(crate) fn previous(&self, at: At) -> Option<At> {
        let Body::Many(groups) = &self.body else { return None };
        let (group, chunk) = at.indices();
        match (group, chunk) {
            (0, 0) => None,
            (_, 0) => Some(At::new(group - 1, groups[group - 1].chunks.len() - 1)),
            _ => Some(At::new(group, chunk - 1)),
        }
    }

    /// The chunks from one on.
    pub(crate) fn chunks_from(&self, at: At) -> impl Iterator<Item = &C> {
        std::iter::successors(Some(at), |at| self.next(*at)).map(|at| self.chunk(at))
    }

    /// The chunks back from one.
    pub(crate) fn chunks_back_from(&self, at: At) -> impl Iterator<Item = &C> {
        std::iter::successors(Some(at), |at| self.previous(*at)).map(|at| self.chunk(at))
    }

    /// The chunk that has the element of that rank, and where in it; for the rank after the last, the end of the last chunk.
    pub(crate) fn at_rank(&self, rank: usize) -> (At, usize) {
        let last = self.last();
        let before_last = self.len - self.chunk(last).len();
        if rank >= before_last {
            return (last, rank - before_last);
        }
        // There is an element of that rank, before the last of several chunks.
        let Body::Many(groups) = &self.body else {
            return (last, rank);
        };
        let mut left = rank;
        for (at, group) in groups.iter().enumerate() {
            if left >= group.len {
                left -= group.len;
                continue;
            }
            for (chunk_at, chunk) in group.chunks.iter().enumerate() {
                if left < chunk.len() {
                    return (At::new(at, chunk_at), left);
                }
                left -= chunk.len();
            }
        }
        (last, left)
    }

    /// How many elements are before a chunk.
    pub(crate) fn rank_of(&self, at: At) -> usize {
        let Body::Many(groups) = &self.body else { return 0 };
        let (group, chunk) = at.indices();
        let groups_before: usize = groups[..group].iter().map(|group| group.len).sum();
        groups_before + groups[group].chunks[..chunk].iter().map(Chunk::len).sum::<usize>()
    }

    /// The last chunk that `holds`, which all before it must do too; the first if none does. O(log chunks).
    pub(crate) fn last_where(&self, mut holds: impl FnMut(&C) -> bool) -> At {
        let Body::Many(groups) = &self.body else {
            return At::FIRST;
        };
        let group = groups
            .partition_point(|group| holds(&group.chunks[0]))
            .saturating_sub(1);
        let chunk = groups[group].chunks.partition_point(holds).saturating_sub(1);
        At::new(group, chunk)
    }

    /// Puts a chunk after another.
    pub(crate) fn insert_after(&mut self, at: At, chunk: C) -> At {
        self.len += chunk.len();
        self.bytes += chunk.allocated_bytes();
        if let Body::One(only) = &mut self.body {
            let only = std::mem::take(only);
            let groups = vec![Group::new(vec![only, chunk])];
            self.bytes += groups.buffer_bytes() + groups[0].chunks.buffer_bytes();
            self.body = Body::Many(groups);
            return At::new(0, 1);
        }
        // It is, after the lines above.
        let Body::Many(groups) = &mut self.body else {
            unreachable!()
        };
        let (first, chunk_at) = at.indices();
        let (mut group, mut target) = (first, chunk_at + 1);
        let before = groups.buffer_bytes() + groups[group].chunks.buffer_bytes();
        let split = groups[group].chunks.len() == GROUP_CHUNKS;
        if split {
            // At the end, where sequences mostly grow, full groups are left behind.
            let at_end = (group + 1, target) == (groups.len(), GROUP_CHUNKS);
            let keep = if at_end { GROUP_CHUNKS } else { GROUP_CHUNKS / 2 };
            let new = Group::new(groups[group].chunks.split_off(keep));
            groups[group].len -= new.len;
            groups[group].chunks.give_back();
            groups.make_room();
            groups.insert(group + 1, new);
            if at_end || target > keep {
                (group, target) = (group + 1, target - keep);
            }
        }
        let into = &mut groups[group];
        into.len += chunk.len();
        into.chunks.make_room();
        into.chunks.insert(target, chunk);
        let after: usize = groups[first..=first + usize::from(split)]
            .iter()
            .map(|group| group.chunks.buffer_bytes())
            .sum();
        self.bytes = self.bytes + groups.buffer_bytes() + after - before;
        At::new(group, target)
    }

    /// Takes a chunk out, which must not be the only one. O(groups + chunks of a group).
    pub(crate) fn remove(&mut self, at: At) -> C {
        let Body::Many(groups) = &mut self.body else {
            unreachable!("the only chunk stays")
        };
        let (group, chunk_at) = at.indices();
        let before = groups.buffer_bytes() + groups[group].chunks.buffer_bytes();
        let from = &mut groups[group];
        let chunk = from.chunks.remove(chunk_at);
        from.len -= chunk.len();
        from.chunks.give_back();
        let mut after = from.chunks.buffer_bytes();
        if from.chunks.is_empty() {
            after = 0;
            groups.remove(group);
            groups.give_back();
        }
        self.bytes = self.bytes + groups.buffer_bytes() + after - before - chunk.allocated_bytes();
        self.len -= chunk.len();
        if let [only] = &mut groups[..]
            && only.chunks.len() == 1
            && let Some(last) = only.chunks.pop()
        {
            self.bytes -= only.chunks.buffer_bytes() + groups.buffer_bytes();
            self.body = Body::One(last);
        } else if group < groups.len() {
            self.join_groups(group);
        }
        chunk
    }

    /// Joins a sparse group with a neighbour, if there is room.
    fn join_groups(&mut self, group: usize) {
        let Body::Many(groups) = &mut self.body else { return };
        if groups[group].chunks.len() > GROUP_CHUNKS / 4 {
            return;
        }
        let fits = |left: usize| {
            groups
                .get(left + 1)
                .is_some_and(|right| groups[left].chunks.len() + right.chunks.len() <= GROUP_CHUNKS * 3 / 4)
        };
        let Some(left) = [Some(group), group.checked_sub(1)]
            .into_iter()
            .flatten()
            .find(|&left| fits(left))
        else {
            return;
        };
        let buffers = |groups: &Vec<Group<C>>, left: std::ops::RangeInclusive<usize>| {
            groups.buffer_bytes()
                + groups[left]
                    .iter()
                    .map(|group| group.chunks.buffer_bytes())
                    .sum::<usize>()
        };
        let before = buffers(groups, left..=left + 1);
        let right = groups.remove(left + 1);
        groups[left].len += right.len;
        groups[left].chunks.reserve_exact(right.chunks.len());
        groups[left].chunks.extend(right.chunks);
        groups.give_back();
        self.bytes = self.bytes + buffers(groups, left..=left) - before;
    }

    /// After removals from a chunk: takes it out if it is empty, or joins it with a neighbour if it has at most `sparse` elements
    /// and both together at most `full`.
    pub(crate) fn tidy(&mut self, at: At, sparse: usize, full: usize, join: impl FnOnce(&mut C, C)) {
        let len = self.chunk(at).len();
        if len > sparse || self.is_one() {
            return;
        }
        if len == 0 {
            self.remove(at);
            return;
        }
        let fits = |other: &At| self.chunk(*other).len() + len <= full;
        let (left, right) = match (self.next(at).filter(fits), self.previous(at).filter(fits)) {
            (Some(next), _) => (at, next),
            (None, Some(previous)) => (previous, at),
            (None, None) => return,
        };
        let moved = self.edit(right, std::mem::take);
        self.edit(left, |chunk| join(chunk, moved));
        self.remove(right);
    }

    /// Drops about `budget` elements from the end, and says whether all are gone.
    pub(crate) fn drop_some(&mut self, budget: usize) -> bool {
        let mut left = budget.max(1);
        loop {
            let last = self.last();
            let len = self.chunk(last).len();
            if len > left {
                self.edit(last, |chunk| chunk.truncate(len - left));
                return false;
            }
            left -= len;
            if self.is_one() {
                self.edit(last, |chunk| chunk.truncate(0));
                return true;
            }
            drop(self.remove(last));
            if left == 0 {
                return false;
            }
        }
    }
}

#[cfg(test)]
impl<C: Chunk> Sequence<C> {
    /// Counts everything anew, and checks what must hold.
    pub(crate) fn check(&self) {
        let len: usize = self.chunks_from(At::FIRST).map(Chunk::len).sum();
        assert_eq!((self.len, self.bytes), (len, self.count_bytes()));
        let Body::Many(groups) = &self.body else { return };
        assert!(groups.iter().map(|group| group.chunks.len()).sum::<usize>() > 1);
        for group in groups {
            assert!(!group.chunks.is_empty() && group.chunks.len() <= GROUP_CHUNKS);
            assert!(group.chunks.iter().all(|chunk| chunk.len() > 0));
            assert_eq!(group.len, group.chunks.iter().map(Chunk::len).sum::<usize>());
        }
    }
}
