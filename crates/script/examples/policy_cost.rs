//! What a check costs, in nanoseconds: `cargo run --release -p tollgate-script --example policy_cost`.
//!
//! One bucket an operation, parameters that are resident already, `token_bucket` as built in (trusted) and with a blank
//! line more (guarded: interrupts count and look at the clock). The figure holds everything from filling the batch to
//! reading outcomes and states; it is the median of five runs, in CPU time of the thread where the system tells it.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

use tollgate_script::{
    Batch, Params, ParamsId, PolicyHost, PolicyLimits, PolicySource, Progress, StateIn, builtin_policies,
};

const CHECKS: usize = 1_000_000;

fn main() {
    let mut sources = builtin_policies();
    let guarded: Vec<PolicySource> = sources
        .iter()
        .map(|source| PolicySource {
            name: format!("{}_guarded", source.name),
            text: format!("{}\n", source.text),
        })
        .collect();
    sources.extend(guarded);
    let mut host = PolicyHost::new(&sources, PolicyLimits::default()).expect("policies load");
    let name = std::env::args().nth(1).unwrap_or_else(|| "token_bucket".to_owned());
    for name in [name.clone(), format!("{name}_guarded")] {
        let policy = host.policy(name.as_bytes()).expect("a policy");
        let params = Params {
            limit: 100,
            window_us: 60_000_000,
            burst: 100,
        };
        let params = host.intern(policy, params).expect("room");
        host.retain(params);
        for size in [1, 8, 32, 64] {
            let mut runs: Vec<f64> = (0..5).map(|_| measure(&mut host, params, size)).collect();
            runs.sort_by(f64::total_cmp);
            println!("{name:24} batch {size:2}: {:6.1} ns a check", runs[2]);
        }
    }
}

/// Nanoseconds a check in batches of `size`.
fn measure(host: &mut PolicyHost, params: ParamsId, size: usize) -> f64 {
    let mut batch = Batch::new();
    let mut stored: Vec<Vec<f64>> = vec![Vec::new(); size];
    let mut now_us = 1_700_000_000_000_000;
    let begin = thread_time_ns();
    for _ in 0..CHECKS / size {
        batch.clear();
        now_us += 1_000;
        for fields in &stored {
            let state = batch.state(StateIn {
                params: (!fields.is_empty()).then_some(params),
                fields,
            });
            batch.check(params, state, now_us, 1, false);
        }
        while host.run(&mut batch) == Progress::More {}
        for (i, fields) in stored.iter_mut().enumerate() {
            black_box(batch.outcome(batch.op_ix(i)).expect("no fault"));
            let after = batch.state_after(batch.state_ix(i));
            fields.clear();
            fields.extend_from_slice(after.fields());
        }
    }
    (thread_time_ns() - begin) as f64 / CHECKS as f64
}

/// CPU time of this thread, or else wall time, in nanoseconds.
fn thread_time_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| START.elapsed().as_nanos() as u64)
}
