//! Going through sets.

use super::run::Source;
use crate::elements::AT_ONCE_MAX;
use crate::{Env, STEP_ELEMENTS, Shard};
use tollgate_protocol::Request;
use tollgate_values::Set;

/// The members of the first set that all others have, or none of them.
pub(super) struct Filter {
    /// Whether the others must have it.
    others_have_it: bool,
    /// Members of the first set, as far as those looked at so far did not leave them out.
    candidates: Vec<Box<[u8]>>,
    /// Where the first set goes on.
    cursor: u64,
    /// No more candidates come.
    is_last: bool,
    /// The source that is asked next; 0 if there are no candidates.
    next: usize,
}

impl Filter {
    pub(super) fn new(others_have_it: bool) -> Self {
        Self {
            others_have_it,
            candidates: Vec::new(),
            cursor: 0,
            is_last: false,
            next: 0,
        }
    }

    /// Does a step; whether the candidates that are left are members.
    pub(super) fn check_some(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        sources: &[Source],
    ) -> bool {
        let mut asked = 0;
        if self.next == 0 {
            // A set that expired meanwhile has no members.
            if let Some(set) = shard.value_of_arg::<Set>(env, request, sources[0].arg) {
                let candidates = &mut self.candidates;
                self.cursor = set.scan(self.cursor, STEP_ELEMENTS, &mut |member| {
                    candidates.push((*member).into())
                });
            } else {
                self.cursor = 0;
            }
            self.is_last = self.cursor == 0;
            self.next = 1;
            asked = self.candidates.len();
        }
        while let Some(source) = sources.get(self.next).filter(|_| !self.candidates.is_empty()) {
            // One set more than what is bounded: candidates are of one partition.
            if asked > 2 * AT_ONCE_MAX {
                return false;
            }
            asked += self.candidates.len();
            let set = shard.value_of_arg::<Set>(env, request, source.arg);
            let has = |member: &[u8]| set.is_some_and(|set| set.contains(member));
            self.candidates.retain(|member| has(member) == self.others_have_it);
            self.next += 1;
        }
        self.next = 0;
        true
    }

    /// The members that a step has found.
    pub(super) fn kept(&mut self) -> std::vec::Drain<'_, Box<[u8]>> {
        self.candidates.drain(..)
    }

    /// Whether all members of the first set have been candidates, and none is left.
    pub(super) fn is_done(&self) -> bool {
        self.is_last && self.next == 0
    }
}

/// The sets one after the other: all are added to a new one, or all but the first are taken from it.
pub(super) struct Merge {
    subtracts: bool,
    /// The source that comes next, and where it goes on.
    next: usize,
    cursor: u64,
}

impl Merge {
    pub(super) fn union() -> Self {
        Self {
            subtracts: false,
            next: 0,
            cursor: 0,
        }
    }

    pub(super) fn difference() -> Self {
        Self {
            subtracts: true,
            ..Self::union()
        }
    }

    /// Does a step; whether it was the last.
    pub(super) fn merge_some(
        &mut self,
        shard: &mut Shard,
        env: &Env,
        request: Request<'_>,
        sources: &[Source],
        result: &mut Set,
    ) -> bool {
        let mut shown = 0;
        while let Some(source) = sources.get(self.next) {
            if shown >= STEP_ELEMENTS {
                return false;
            }
            let removes = self.subtracts && self.next > 0;
            // A set is looked at as one element at least, since it has to be found.
            shown += 1;
            if let Some(set) = shard.value_of_arg::<Set>(env, request, source.arg) {
                self.cursor = set.scan(self.cursor, STEP_ELEMENTS, &mut |member| {
                    shown += 1;
                    if removes {
                        result.remove(&member);
                    } else {
                        result.add(&member);
                    }
                });
            } else {
                self.cursor = 0;
            }
            if self.cursor == 0 {
                self.next += 1;
                if self.subtracts && result.is_empty() {
                    return true;
                }
            }
        }
        true
    }
}
