//! Memory for new entries, when there is a bound.

use crate::{CommandError, Shard, WhenFull};
use tollgate_script::ParamsId;
use tollgate_store::Relief;

impl Shard {
    /// What counts against the bound, in bytes: entries, and the limits that their buckets have.
    pub(crate) fn bounded_bytes(&self) -> usize {
        self.store.bytes() + self.policies.retained_bytes()
    }

    /// Makes room for one more entry, by the rule of the configuration.
    pub(crate) fn make_room(&mut self, drops_max: usize) -> Result<(), CommandError> {
        /// Flushed entries freed for one new entry while there is no room.
        const FREED_FOR_ONE: usize = 64;
        /// Entries looked at to find one that is cheap to lose, as Redis samples for its evictions.
        const SAMPLES: usize = 8;
        if self.max_memory_bytes == 0 {
            return Ok(());
        }
        for _ in 0..drops_max {
            if self.bounded_bytes() < self.max_memory_bytes {
                return Ok(());
            }
            let relief = match self.when_full {
                WhenFull::Refuse => None,
                WhenFull::Shed => {
                    let draw = self.next_draw();
                    self.store.relieve(draw, SAMPLES)
                }
            };
            match relief {
                Some(Relief::Compacted) => {}
                Some(Relief::Evict(place)) if self.holds.has(self.store.view(place).entry.key()) => {}
                Some(Relief::Evict(place)) => {
                    if self.interest.watches_any() {
                        let view = self.store.view(place);
                        let (space, key): (_, Box<[u8]>) = (view.space, view.entry.key().into());
                        self.note_standing_change(space, &key);
                    }
                    if let Some(params) = self.store.remove_at(place).params {
                        self.policies.release(ParamsId(params));
                    }
                    self.stats.shed += 1;
                }
                None => {
                    // What was flushed may still take memory.
                    if self.trash.is_empty() {
                        self.stats.out_of_memory += 1;
                        return Err(CommandError::OutOfMemory);
                    }
                    self.free_trash(FREED_FOR_ONE);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::test_shard::TestShards;
    use tollgate_store::{Keyspace, MAX_PAGE_BYTES};

    #[test]
    fn limits_count_against_the_bound() {
        const BOUND: usize = 16 << 20;
        let mut shards = TestShards::new(1);
        shards.shards[0].max_memory_bytes = BOUND;
        let mut most_bytes = 0;
        for number in 0..200_000 {
            shards.run(&format!("RL.CHECK key:{number} LIMIT {} PER 1h", 10 + number));
            let shard = &shards.shards[0];
            most_bytes = most_bytes.max(shard.store.bytes() + shard.policies.params_bytes());
        }
        let shard = &shards.shards[0];
        assert!(shard.stats.shed > 0);
        assert!(
            shard.policies.params_bytes() > BOUND / 2,
            "limits take more than buckets"
        );
        assert!(most_bytes < 2 * BOUND, "{most_bytes} bytes");
        // What nobody uses any more is given back.
        let full_bytes = shard.policies.params_bytes();
        shards.run("FLUSHALL");
        while shards.shards[0].tidy(0, 1_000) {}
        let left_bytes = shards.shards[0].policies.params_bytes();
        assert!(left_bytes < full_bytes * 2 / 3, "{left_bytes} of {full_bytes} bytes");
    }

    #[test]
    fn shedding_drops_no_more_than_the_bound_asks_for() {
        const BOUND: usize = 8 << 20;
        let mut shards = TestShards::new(1);
        shards.shards[0].max_memory_bytes = BOUND;
        let (mut fitted, mut fewest, mut most_bytes) = (0, usize::MAX, 0);
        for number in 0..250_000 {
            shards.check(&format!("key:{number:08}"));
            let shard = &shards.shards[0];
            let kept = shard.store.len(Keyspace::Db(0));
            if shard.stats.shed == 0 {
                fitted = kept;
            } else {
                fewest = fewest.min(kept);
                most_bytes = most_bytes.max(shard.store.bytes());
            }
        }
        assert!(
            fewest * 100 >= fitted * 95,
            "{fitted} fitted, but only {fewest} were kept"
        );
        // It is looked at before an entry: the growth of one page, at most, is beyond it.
        assert!(most_bytes <= BOUND + MAX_PAGE_BYTES + BOUND / 100, "{most_bytes} bytes");
    }
}
