//! The parts of the hot path one by one, without sockets: `cargo bench --bench micro`.
//!
//! Figures are CPU time of the thread for one operation, the median of several runs. A figure of a batch holds the work
//! of one operation in it. What runs a batch at a time in a worker is timed so here.

use clap::Parser;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use tollgate_commands::{CheckQueue, CommandTable, Env, Flow, LastCommand, Shard, ShardConfig, Step, WhenFull};
use tollgate_loadgen::keys::{Distribution, KEY_BYTES, Keys, first_key, patch};
use tollgate_loadgen::report::{median, range, table};
use tollgate_loadgen::servers::Workload;
use tollgate_loadgen::{CLIENT_CORE, machine, process};
use tollgate_protocol::{Progress, Proto, ReplyWriter, ScanLimits, Scanner};
use tollgate_script::{Batch, Params, PolicyHost, PolicyLimits, StateIn, builtin_policies};
use tollgate_store::{Expiry, Key, Numbers, SLOTS, Space, State, Store};

// The allocator of the binary, so that memory lies as it does there.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Requests, checks or keys that go together, as in a turn of a client with this pipeline.
const BATCH: usize = 32;
/// A wall time in microseconds, as the node's clock reads it.
const START_US: u64 = 1_700_000_000_000_000;

/// Times the parts of the hot path.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only parts whose name contains this.
    #[arg(default_value = "")]
    filter: String,
    /// Runs; the median counts.
    #[arg(long, default_value_t = 5, default_value_if("quick", "true", "1"),
          value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Operations a run.
    #[arg(long, default_value_t = 2_000_000, default_value_if("quick", "true", "100000"), value_parser = clap::value_parser!(u32).range(32..))]
    operations: u32,
    /// One short run unless set otherwise: to see that it works.
    #[arg(long)]
    quick: bool,
    /// What cargo says to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The result of a part: anything that went wrong in preparing or timing it.
type Timed<T> = Result<T, Box<dyn std::error::Error>>;

/// The parts timed so far.
struct Report {
    arguments: Arguments,
    rows: Vec<Vec<String>>,
}

impl Report {
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.arguments.filter)
    }

    /// Times `work`, which does `each` operations a call.
    fn time(&mut self, name: &str, each: usize, mut work: impl FnMut() -> Timed<()>) -> Timed<()> {
        if !self.wants(name) {
            return Ok(());
        }
        let calls = self.arguments.operations as usize / each;
        let mut nanoseconds = Vec::new();
        // The first run warms up.
        for run in 0..=self.arguments.runs {
            let before = process::own_thread_cpu();
            for _ in 0..calls {
                work()?;
            }
            let used = process::own_thread_cpu() - before;
            if run > 0 {
                nanoseconds.push(used.as_nanos() as f64 / (calls * each) as f64);
            }
        }
        let (low, high) = range(&nanoseconds);
        self.rows.push(vec![
            name.to_owned(),
            format!("{:.1}", median(&nanoseconds)),
            format!("{low:.1}–{high:.1}"),
        ]);
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut report = Report {
        arguments,
        rows: Vec::new(),
    };
    println!("# micro\n");
    for line in machine::conditions() {
        println!("- {line}");
    }
    println!(
        "- one thread on core {CLIENT_CORE}; its CPU time, median of {} runs of {} operations\n",
        report.arguments.runs, report.arguments.operations
    );
    let parts = [scan, reply, policy, lookup, shard];
    let result = machine::pin(CLIENT_CORE)
        .map_err(Into::into)
        .and_then(|()| parts.iter().try_for_each(|part| part(&mut report)));
    let header = ["part", "ns an operation", "min–max"];
    print!("{}", table(&header, &report.rows));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("micro: {error}");
            ExitCode::FAILURE
        }
    }
}

const WORKLOAD: Workload = Workload {
    limit: 100,
    window_s: 60,
};

fn scan(report: &mut Report) -> Timed<()> {
    let input = WORKLOAD.check().batch(BATCH);
    let mut scanner = Scanner::new(ScanLimits::default());
    let table = CommandTable::default();
    let mut last_command = LastCommand::default();
    for resolve in [false, true] {
        let name = if resolve {
            "scan a request and find its command"
        } else {
            "scan a request"
        };
        report.time(name, BATCH, || {
            let mut at = 0;
            while at < input.len() {
                let Progress::Request { consumed } = scanner.next(black_box(&input[at..]))? else {
                    return Err("the scanner found no request".into());
                };
                let request = scanner.request(&input[at..]);
                if resolve {
                    black_box(table.resolve(request, &mut last_command)?);
                } else {
                    black_box(request);
                }
                at += consumed;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn reply(report: &mut Report) -> Timed<()> {
    let mut out = Vec::new();
    let mut reset_at_ms = 1_727_314_860_123;
    report.time("write a reply (RESP2)", BATCH, || {
        out.clear();
        for remaining in 0..BATCH as i64 {
            let mut writer = ReplyWriter::new(&mut out, Proto::Resp2);
            reset_at_ms += 1;
            writer.array(6);
            writer.int(1);
            writer.int(100);
            writer.int(remaining);
            writer.int(0);
            writer.int(reset_at_ms);
            writer.bulk(b"owner");
        }
        black_box(&out);
        Ok(())
    })
}

fn policy(report: &mut Report) -> Timed<()> {
    let mut host = PolicyHost::new(&builtin_policies(), PolicyLimits::default())?;
    let policy = host.policy(b"token_bucket").ok_or("no token_bucket")?;
    let params = Params {
        limit: 100,
        window_us: 60_000_000,
        burst: 100,
    };
    let params = host.intern(policy, params)?;
    host.retain(params);
    for size in [1, BATCH] {
        let mut batch = Batch::new();
        let mut states: Vec<Vec<f64>> = vec![Vec::new(); size];
        let mut now_us = START_US as i64;
        report.time(&format!("call a policy, batch of {size}"), size, || {
            now_us += 1_000;
            batch.clear();
            for fields in &states {
                let state = batch.state(StateIn {
                    params: (!fields.is_empty()).then_some(params),
                    fields,
                });
                batch.check(params, state, now_us, 1, false);
            }
            while host.run(&mut batch) == tollgate_script::Progress::More {}
            for (n, fields) in states.iter_mut().enumerate() {
                black_box(batch.outcome(batch.op_ix(n))?);
                fields.clear();
                fields.extend_from_slice(batch.state_after(batch.state_ix(n)).fields());
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The names of the next keys.
fn names(keys: &mut Keys) -> [[u8; KEY_BYTES]; BATCH] {
    std::array::from_fn(|_| {
        let mut name = first_key();
        patch(&mut name, keys.next_number());
        name
    })
}

fn lookup(report: &mut Report) -> Timed<()> {
    report.time("draw and write a key (part of the lookups)", BATCH, {
        let mut keys = Distribution::uniform(1_000_000).draw(1);
        move || {
            black_box(names(&mut keys));
            Ok(())
        }
    })?;
    for count in [1_000, 1_000_000] {
        let title = |how: &str| format!("look a bucket up, {count} keys, {how}");
        if !report.wants(&title("one by one")) && !report.wants(&title("together")) {
            continue;
        }
        let mut store = Store::new(0..SLOTS, 0x5eed, START_US);
        let state = State::Numbers(Numbers::new(&[99.0, START_US as f64])?);
        for number in 0..count {
            let mut name = first_key();
            patch(&mut name, number);
            let key = store.key(Space::Db(0), &name)?;
            store.put(&key, 1, Expiry::NEVER, false, state)?;
        }
        for together in [false, true] {
            let mut keys = Distribution::uniform(count).draw(1);
            let how = if together { "together" } else { "one by one" };
            report.time(&title(how), BATCH, || {
                let names = names(&mut keys);
                let keys: Vec<Key<'_>> = names
                    .iter()
                    .map(|name| store.key(Space::Db(0), name))
                    .collect::<Result<_, _>>()?;
                let mut places = [None; BATCH];
                if together {
                    store.locate(&keys, &mut places);
                } else {
                    keys.iter()
                        .zip(&mut places)
                        .for_each(|(key, place)| *place = store.find(key));
                }
                for place in places {
                    black_box(store.bucket(place.ok_or("a key is missing")?));
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Checks that a worker decides between two flushes of its streams, every 20 ms.
const CHECKS_A_FLUSH: u64 = 10_000;
/// Bytes of one batch of a stream.
const STREAM_BYTES: usize = 64 * 1024;

/// What is done with the changes of all slots beside the checks.
#[derive(Clone, Copy)]
enum Stream {
    /// Nobody follows.
    Nothing,
    /// They are listed, and nobody reads them.
    Listed,
    /// They are written, every so often.
    Written,
    /// Another shard takes them, too.
    Taken,
}

impl Stream {
    fn text(self) -> &'static str {
        match self {
            Stream::Nothing => "",
            Stream::Listed => ", changes listed",
            Stream::Written => ", changes written",
            Stream::Taken => ", changes written and taken",
        }
    }

    fn send(self, shard: &mut Shard, follower: &mut Shard, marks: &mut [u64]) -> Timed<()> {
        let mut changed = Vec::new();
        shard.take_changed_slots(&mut changed);
        let mut out = Vec::new();
        for slot in changed {
            let mark = &mut marks[usize::from(slot)];
            if matches!(self, Stream::Listed) {
                *mark = shard.track_slot(slot);
                shard.forget_slot_changes(slot, Some(*mark));
                continue;
            }
            out.clear();
            *mark = shard.slot_changes(slot, *mark, STREAM_BYTES, &mut out)?.mark;
            shard.forget_slot_changes(slot, Some(*mark));
            if matches!(self, Stream::Taken) {
                follower.apply_to_slot(slot, &out)?;
            }
            black_box(&out);
        }
        Ok(())
    }
}

/// All that a worker does for a check, but for the sockets.
fn shard(report: &mut Report) -> Timed<()> {
    let template = WORKLOAD.check();
    let table = CommandTable::default();
    let mut last_command = LastCommand::default();
    for (count, size, stream) in [
        (1_000, 1, Stream::Nothing),
        (1_000, BATCH, Stream::Nothing),
        (1_000_000, 1, Stream::Nothing),
        (1_000_000, BATCH, Stream::Nothing),
        (1_000_000, BATCH, Stream::Listed),
        (1_000_000, BATCH, Stream::Written),
        (1_000_000, BATCH, Stream::Taken),
        (1, BATCH, Stream::Nothing),
        (1, BATCH, Stream::Taken),
    ] {
        let name = format!(
            "scan, decide and answer a check, {count} keys, batch of {size}{}",
            stream.text()
        );
        if !report.wants(&name) {
            continue;
        }
        {
            let config = ShardConfig {
                slots: 0..SLOTS,
                seed: 0x5eed,
                now_us: START_US,
                policies: builtin_policies().into(),
                policy_limits: PolicyLimits::default(),
                rules: Arc::default(),
                max_memory_bytes: 0,
                when_full: WhenFull::Shed,
                idle_us: 3_600_000_000,
                string_bytes_max: 512 << 20,
                pattern_bytes_max: 512,
                random_picks_max: 1 << 20,
                awaited_keys_max: 1,
                undo_bytes_max: usize::MAX,
                hash_seed: tollgate_values::HashSeed::new(7),
            };
            let mut follower = Shard::new(config.clone())?;
            let mut shard = Shard::new(config)?;
            let mut queue = CheckQueue::default();
            let mut scanner = Scanner::new(ScanLimits::default());
            let mut input = template.batch(size);
            let mut out = Vec::new();
            let mut env = Env {
                db: 0,
                proto: Proto::Resp2,
                now_us: START_US,
                wall_offset_us: 0,
            };
            let mut marks = Vec::new();
            if !matches!(stream, Stream::Nothing) {
                marks.extend((0..SLOTS).map(|slot| shard.track_slot(slot)));
                (0..SLOTS).for_each(|slot| follower.set_slot_held(slot, false));
            }
            let mut streamed = 0;
            let mut turn = |keys: &mut Keys| -> Timed<()> {
                template.patch_batch(&mut input, || keys.next_number());
                env.now_us += size as u64;
                out.clear();
                queue.start(false);
                let mut at = 0;
                while at < input.len() {
                    let Progress::Request { consumed } = scanner.next(&input[at..])? else {
                        return Err("the scanner found no request".into());
                    };
                    let request = scanner.request(&input[at..]);
                    let (spec, _) = table.resolve(request, &mut last_command)?;
                    if matches!(shard.run(&env, &mut queue, spec, request, &mut out), Step::FlushFirst) {
                        return Err("a batch did not fit the queue".into());
                    }
                    at += consumed;
                }
                while shard.flush(&env, &mut queue, &mut out) == Flow::Yield {}
                streamed += size as u64;
                if !marks.is_empty() && streamed >= CHECKS_A_FLUSH {
                    streamed = 0;
                    stream.send(&mut shard, &mut follower, &mut marks)?;
                }
                if out.first() != Some(&b'*') {
                    return Err(format!("a check answered {:?}", String::from_utf8_lossy(&out)).into());
                }
                Ok(())
            };
            let mut every = Distribution::sequential(count).draw(0);
            for _ in 0..count as usize / size {
                turn(&mut every)?;
            }
            let mut keys = Distribution::uniform(count).draw(1);
            report.time(&name, size, || turn(&mut keys))?;
        }
    }
    Ok(())
}
