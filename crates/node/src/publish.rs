//! What a worker's shard has counted, put where the other threads can read it.

use crate::limits::Bound;
use crate::metrics::PolicyFaultKind;
use crate::worker::Worker;
use tollgate_commands::FaultKind;
use tollgate_store::Keyspace;

/// Publishes the shard's counts. Cheap, but not for every command.
pub fn publish(worker: &Worker) {
    let patterns_too_long = worker.shard.borrow_mut().take_patterns_too_long();
    let shard = worker.shard.borrow();
    let counters = worker.counters();
    let stats = shard.stats();
    for (policy, published) in stats.policies.iter().zip(&counters.policies) {
        published.allowed.set(policy.allowed);
        published.denied.set(policy.denied);
        published.errors.set(policy.errors);
        for kind in FaultKind::ALL {
            published.faults(label(kind)).set(policy.faults[kind as usize]);
        }
    }
    let faults = |kind: FaultKind| stats.policies.iter().map(|policy| policy.faults[kind as usize]).sum();
    counters.limit_hits(Bound::PolicyBudget).set(faults(FaultKind::Budget));
    counters.limit_hits(Bound::PolicyMemory).set(faults(FaultKind::Memory));
    counters.limit_hits(Bound::InternedLimits).set(stats.too_many_limits);
    counters
        .limit_hits(Bound::MaxMemory)
        .set(stats.out_of_memory + stats.shed);
    counters.limit_hits(Bound::StringBytes).set(stats.strings_too_long);
    counters.limit_hits(Bound::RandomPicks).set(stats.too_many_picks);
    let carry = &stats.carry;
    counters.limit_hits(Bound::ChangesBytes).set(carry.forgotten);
    counters.limit_hits(Bound::JournalBuckets).set(carry.journal_lost);
    for (counter, count) in counters.slot_entries_refused.iter().zip([
        carry.unknown_policy,
        carry.unknown_rule,
        carry.other_version,
        carry.too_many_limits,
        carry.out_of_memory,
        carry.malformed,
    ]) {
        counter.set(count);
    }
    counters.debits_taken.set(carry.debits);
    counters.debits_lost.set(carry.debits_lost);
    counters.limit_hits(Bound::AwaitedKeys).set(stats.too_many_awaited);
    counters.limit_hits(Bound::UndoBytes).set(stats.undo_full);
    // The worker counts those of the commands that it runs itself.
    counters.limit_hits(Bound::PatternBytes).add(patterns_too_long);
    counters.limit_hits(Bound::KeyBytes).set(stats.keys_too_long);
    counters
        .limit_hits(Bound::CompiledScripts)
        .set(worker.scripts.borrow().dropped());
    counters
        .limit_hits(Bound::CompiledBytes)
        .set(worker.scripts.borrow().dropped_large());
    counters.script_bytes.set(worker.scripts.borrow().used_bytes() as u64);
    if worker.index == 0 {
        let node = &worker.node;
        counters.limit_hits(Bound::Scripts).set(node.scripts.refused());
        for (bound, refused) in [
            (Bound::Libraries, node.functions.refused_libraries()),
            (Bound::LibraryBytes, node.functions.refused_bytes()),
        ] {
            counters.limit_hits(bound).set(refused);
        }
    }
    counters.expired.set(stats.expired);
    counters.shed.set(stats.shed);
    let store = shard.store();
    counters.stored_bytes.set(store.bytes() as u64);
    counters.limits_bytes.set(shard.policies().params_bytes() as u64);
    let keys = &worker.node.keys[worker.index];
    let (mut entries, mut values) = (0, 0);
    for keyspace in Keyspace::all() {
        let count = store.len(keyspace) as u64;
        entries += count;
        values += store.values(keyspace) as u64;
        match keyspace {
            Keyspace::Db(number) => {
                keys.databases[usize::from(number)].set(count);
                keys.expiring[usize::from(number)].set(store.expiring(keyspace) as u64);
            }
            Keyspace::Rules => keys.rules.set(count),
            // Not among all: they are copies of what is counted elsewhere.
            Keyspace::StandIns => {}
        }
    }
    counters.buckets.set(entries - values);
    counters.values.set(values);
}

fn label(kind: FaultKind) -> PolicyFaultKind {
    match kind {
        FaultKind::Error => PolicyFaultKind::Error,
        FaultKind::Budget => PolicyFaultKind::Budget,
        FaultKind::Memory => PolicyFaultKind::Memory,
        FaultKind::BadResult => PolicyFaultKind::BadResult,
    }
}
