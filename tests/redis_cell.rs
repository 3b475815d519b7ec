//! `CL.THROTTLE` against conversations recorded with redis-cell 0.5 (tests/data/redis-cell.jsonl).
//!
//! A conversation is followed up to its first negative argument, argument above 2^31, or error: from there on redis-cell
//! itself is wrong (docs/redis-cell.md says how).

use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_commands::{CheckQueue, CommandTable, Env, Flow, LastCommand, Shard, ShardConfig, Step, WhenFull};
use tollgate_limiter::RuleSet;
use tollgate_protocol::{Progress, Proto, ScanLimits, Scanner, encode_request};
use tollgate_suite::{Client, Node};

/// A conversation whose first command was recorded well before redis-cell handled it, and how much later that was, in ms.
/// The 1,000 tokens taken at 185 ms left none, so fewer than 0.95 had come back by then, and what later steps left says that
/// at least 0.54 had: at 6 tokens a second the bucket began to refill 27 to 94 ms later than recorded.
const LATE_START: (&str, u64) = ("k37", 60);

/// Conversations of the recording that are replayed over a socket, in real time.
const LIVE_CONVERSATIONS: usize = 20;
/// Seconds that a token of their limits takes at least.
const TOKEN_S_MIN: u64 = 5;
/// The longest of those, so that the test ends in time.
const LIVE_MS_MAX: u64 = 5_000;

#[derive(Debug, Deserialize)]
struct Conversation {
    key: String,
    steps: Vec<Recorded>,
}

#[derive(Debug, Deserialize)]
struct Recorded {
    at_ms: u64,
    args: Vec<String>,
    reply: Option<Vec<i64>>,
}

impl Recorded {
    /// Whether redis-cell can be trusted here.
    fn is_sane(&self) -> bool {
        let in_range = |arg: &String| arg.parse::<i64>().is_ok_and(|n| (0..=1 << 31).contains(&n));
        self.reply.is_some() && self.args.iter().all(in_range)
    }
}

impl Conversation {
    /// Whether it can be replayed in real time: short, and of limits so slow that a machine which answers late answers the same.
    fn is_live(&self) -> bool {
        let slow = |step: &Recorded| match step.args[1..3]
            .iter()
            .map(|arg| arg.parse::<u64>())
            .collect::<Result<Vec<_>, _>>()
        {
            Ok(rate) => rate[1] >= TOKEN_S_MIN * rate[0],
            Err(_) => false,
        };
        let last_ms = self.sane().last().map_or(u64::MAX, |step| step.at_ms);
        self.key != LATE_START.0 && last_ms <= LIVE_MS_MAX && self.sane().count() >= 5 && self.sane().all(slow)
    }

    /// The steps up to the first that is not sane.
    fn sane(&self) -> impl Iterator<Item = &Recorded> {
        self.steps.iter().take_while(|step| step.is_sane())
    }
}

fn conversations() -> Vec<Conversation> {
    let text = include_str!("data/redis-cell.jsonl");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a conversation"))
        .collect()
}

/// Compares two replies: verdict, limit and remaining exactly, the two times to a second, -1 only with -1.
fn agrees(ours: &[i64], recorded: &[i64]) -> bool {
    let time = |a: i64, b: i64| if a < 0 || b < 0 { a == b } else { (a - b).abs() <= 1 };
    ours.len() == 5 && ours[..3] == recorded[..3] && time(ours[3], recorded[3]) && time(ours[4], recorded[4])
}

fn shard() -> Shard {
    Shard::new(ShardConfig {
        slots: 0..tollgate_store::SLOTS,
        seed: 1,
        now_us: START_US,
        policies: tollgate_script::builtin_policies().into(),
        policy_limits: Default::default(),
        rules: Arc::new(RuleSet::default()),
        max_memory_bytes: 0,
        when_full: WhenFull::Shed,
        idle_us: 3_600_000_000,
        string_bytes_max: 512 << 20,
        pattern_bytes_max: 512,
        random_picks_max: 1 << 20,
        awaited_keys_max: 1,
        undo_bytes_max: usize::MAX,
        hash_seed: tollgate_values::HashSeed::new(7),
    })
    .expect("the built-in policies")
}

const START_US: u64 = 1_700_000_000_000_000;

/// Runs one command at a time of our choosing and returns its reply.
fn run(shard: &mut Shard, args: &[&str], now_us: u64) -> Vec<u8> {
    let mut request = Vec::new();
    encode_request(args, &mut request);
    let mut scanner = Scanner::new(ScanLimits::default());
    assert!(matches!(scanner.next(&request), Ok(Progress::Request { .. })));
    let request = scanner.request(&request);
    let table = CommandTable::default();
    let (spec, _) = table.resolve(request, &mut LastCommand::default()).expect("a command");
    let env = Env {
        db: 0,
        proto: Proto::Resp2,
        now_us,
        wall_offset_us: 0,
    };
    let (mut queue, mut out) = (CheckQueue::default(), Vec::new());
    assert!(matches!(
        shard.run(&env, &mut queue, spec, request, &mut out),
        Step::Done
    ));
    assert_eq!(shard.flush(&env, &mut queue, &mut out), Flow::Done);
    out
}

fn integers(reply: &[u8]) -> Vec<i64> {
    let text = std::str::from_utf8(reply).expect("text");
    text.lines()
        .filter_map(|line| line.strip_prefix(':'))
        .map(|n| n.parse().expect("an integer"))
        .collect()
}

#[test]
fn replays_the_recorded_conversations() {
    let mut shard = shard();
    let (mut compared, mut different) = (0, Vec::new());
    for (index, conversation) in conversations().iter().enumerate() {
        let key = format!("{index}:{}", conversation.key);
        for (number, step) in conversation.sane().enumerate() {
            let late_ms = if number == 0 && conversation.key == LATE_START.0 {
                LATE_START.1
            } else {
                0
            };
            let mut args = vec!["CL.THROTTLE", &key];
            args.extend(step.args.iter().map(String::as_str));
            let reply = run(&mut shard, &args, START_US + (step.at_ms + late_ms) * 1_000);
            let recorded = step.reply.as_deref().unwrap_or_default();
            compared += 1;
            if !agrees(&integers(&reply), recorded) {
                different.push(format!(
                    "{key} at {} ms {:?}: {:?}, recorded {recorded:?}",
                    step.at_ms,
                    step.args,
                    integers(&reply)
                ));
            }
        }
    }
    println!("{compared} steps compared");
    assert!(compared > 1_000, "the recording is mostly sane");
    assert!(
        different.is_empty(),
        "{} of {compared} differ:\n{}",
        different.len(),
        different.join("\n")
    );
}

#[test]
fn replays_twenty_over_a_socket() {
    let conversations: Vec<_> = conversations()
        .into_iter()
        .filter(Conversation::is_live)
        .take(LIVE_CONVERSATIONS)
        .collect();
    assert_eq!(conversations.len(), LIVE_CONVERSATIONS);
    let node = Node::start(&["--workers", "2"]);
    // All at once, each on a connection of its own, or it would take too long.
    std::thread::scope(|scope| {
        for conversation in &conversations {
            let node = &node;
            scope.spawn(move || replay_live(node, conversation));
        }
    });
}

fn replay_live(node: &Node, conversation: &Conversation) {
    let mut client = Client::connect(node.listen());
    let mut started = None;
    let mut first_at_ms = 0;
    for step in conversation.sane() {
        let started = *started.get_or_insert_with(|| {
            first_at_ms = step.at_ms;
            Instant::now()
        });
        let due = started + Duration::from_millis(step.at_ms - first_at_ms);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut args = vec!["CL.THROTTLE".to_owned(), conversation.key.clone()];
        args.extend(step.args.iter().cloned());
        let reply = client.command(&args);
        let ours: Vec<i64> = reply.items().iter().map(|item| item.int()).collect();
        let recorded = step.reply.as_deref().unwrap_or_default();
        assert!(
            agrees(&ours, recorded),
            "{} {:?}: {ours:?}, recorded {recorded:?}",
            conversation.key,
            step.args
        );
    }
}
