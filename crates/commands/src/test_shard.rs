//! Shards for unit tests.

use crate::test_request::with_line;
use crate::{
    CheckQueue, CommandTable, Env, Flow, KeyspaceLimits, KeyspaceRun, LastCommand, Run, Shard, ShardConfig, Step,
    WhenFull,
};
use std::ops::Range;
use std::sync::Arc;
use tollgate_limiter::RuleSet;
use tollgate_protocol::Proto;
use tollgate_script::{PolicyLimits, builtin_policies};
use tollgate_store::{SLOTS, slot_of};

/// Where the clock of a test starts.
pub(crate) const START_US: u64 = 1_700_000_000_000_000;

const TEST_LIMITS: KeyspaceLimits = KeyspaceLimits {
    keys_max: 1000,
    pattern_bytes_max: 512,
};

/// The shards of one node, without its threads.
pub(crate) struct TestShards {
    pub shards: Vec<Shard>,
    pub slots: Arc<[Range<u16>]>,
    pub now_us: u64,
    pub db: u8,
    pub proto: Proto,
    table: CommandTable,
}

impl TestShards {
    pub fn new(count: u16) -> Self {
        Self::with_limits(count, PolicyLimits::default())
    }

    pub fn with_limits(count: u16, policy_limits: PolicyLimits) -> Self {
        let bound = |index: u16| (u32::from(SLOTS) * u32::from(index) / u32::from(count)) as u16;
        let slots: Arc<[Range<u16>]> = (0..count).map(|index| bound(index)..bound(index + 1)).collect();
        let rules = serde_json::from_str(r#"[{"id":"free","limit":50,"window":"1m"}]"#).unwrap();
        let rules = Arc::new(RuleSet::new(rules).unwrap());
        let hash_seed = tollgate_values::HashSeed::new(7);
        let shard = |slots: &Range<u16>| {
            Shard::new(ShardConfig {
                slots: slots.clone(),
                seed: 42,
                now_us: START_US,
                policies: builtin_policies().into(),
                policy_limits,
                rules: rules.clone(),
                max_memory_bytes: 0,
                when_full: WhenFull::Shed,
                idle_us: 3_600_000_000,
                string_bytes_max: 1 << 20,
                pattern_bytes_max: TEST_LIMITS.pattern_bytes_max,
                random_picks_max: 10_000,
                awaited_keys_max: 100,
                undo_bytes_max: 1 << 26,
                hash_seed,
            })
            .unwrap()
        };
        Self {
            shards: slots.iter().map(shard).collect(),
            slots,
            now_us: START_US,
            db: 0,
            proto: Proto::Resp2,
            table: CommandTable::default(),
        }
    }

    pub fn env(&self) -> Env {
        Env {
            db: self.db,
            proto: self.proto,
            now_us: self.now_us,
            wall_offset_us: 0,
        }
    }

    fn owner(&self, key: &[u8]) -> usize {
        let slot = slot_of(key);
        self.slots.iter().position(|slots| slots.contains(&slot)).unwrap()
    }

    /// Runs a command of shards and returns what the client reads.
    pub fn run(&mut self, line: &str) -> String {
        String::from_utf8(self.run_bytes(line)).unwrap()
    }

    /// As [`TestShards::run`], for what need not be text.
    pub fn run_bytes(&mut self, line: &str) -> Vec<u8> {
        let env = self.env();
        let mut out = Vec::new();
        with_line(line, |request| {
            match self.table.resolve(request, &mut LastCommand::default()) {
                Err(error) => error.write(&mut out, env.proto),
                Ok((spec, _)) if !matches!(spec.run, Run::Keyspace(_) | Run::Connection(_)) => {
                    let key = spec.key_positions(request).next();
                    let owner = key.map_or(0, |key| self.owner(request.arg(key)));
                    let mut queue = CheckQueue::default();
                    let shard = &mut self.shards[owner];
                    match shard.run(&env, &mut queue, spec, request, &mut out) {
                        Step::Done => {}
                        Step::FlushFirst | Step::Wait => unreachable!("nothing is queued or held"),
                        Step::More(mut rest) => while !shard.go_on(&env, &mut queue, &mut *rest, request, &mut out) {},
                    }
                    while self.shards[owner].flush(&env, &mut queue, &mut out) == Flow::Yield {}
                }
                Ok((spec, _)) => {
                    let Run::Keyspace(command) = spec.run else {
                        panic!("{} needs no shard", spec.name)
                    };
                    match KeyspaceRun::new(command, &env, request, self.slots.clone(), TEST_LIMITS) {
                        Err(error) => error.write(&mut out, env.proto),
                        Ok(run) => self.carry(run, &mut out),
                    }
                }
            }
        });
        out
    }

    fn carry(&mut self, mut run: KeyspaceRun, out: &mut Vec<u8>) {
        while let Some((shard, op)) = run.ask() {
            let answer = self.shards[shard].keyspace(&op, self.now_us);
            if let Err(error) = run.take(answer) {
                return error.write(out, self.proto);
            }
        }
        run.finish(&self.env(), out);
    }

    /// Takes one of the ten tokens that the bucket of a key holds, which come back one a second.
    pub fn check(&mut self, key: &str) {
        let reply = self.run(&format!("RL.CHECK {key} LIMIT 10 PER 10s"));
        assert!(reply.starts_with("*6\r\n"), "{reply}");
    }

    pub fn advance_ms(&mut self, ms: u64) {
        self.now_us += ms * 1000;
    }
}

/// What commands on a key answer when it does not exist.
const GONE: [(&str, &str); 8] = [
    ("EXISTS k", ":0\r\n"),
    ("TOUCH k", ":0\r\n"),
    ("TYPE k", "+none\r\n"),
    ("TTL k", ":-2\r\n"),
    ("PTTL k", ":-2\r\n"),
    ("OBJECT ENCODING k", "$-1\r\n"),
    ("MEMORY USAGE k", "$-1\r\n"),
    ("PERSIST k", ":0\r\n"),
];

/// Asserts that there is no key.
pub(crate) fn assert_gone(shards: &mut TestShards) {
    for (command, reply) in GONE {
        assert_eq!(shards.run(command), reply, "{command}");
    }
    assert_eq!(shards.run("KEYS *"), "*0\r\n");
    assert_eq!(shards.run("SCAN 0"), "*2\r\n$1\r\n0\r\n*0\r\n");
    assert_eq!(shards.run("RANDOMKEY"), "$-1\r\n");
}
