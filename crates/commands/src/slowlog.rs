//! SLOWLOG: the commands that took long.
//!
//! Each worker notes its own; GET puts them together. Nothing is written, and nothing locked, but for a command that was slow.

use crate::CommandError;
use crate::monitor::is_secret;
use crate::node_view::ConnectionCall;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tollgate_protocol::{Request, parse_integer};

/// The most entries that can be asked for.
pub const SLOWLOG_ENTRIES_MAX: usize = 1 << 20;
/// Arguments that an entry keeps, and bytes of each (Redis, `SLOWLOG_ENTRY_MAX_ARGC` and `SLOWLOG_ENTRY_MAX_STRING`).
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;
/// What the threshold is when nothing is noted.
const NEVER_US: u64 = u64::MAX;
/// Entries that SLOWLOG GET answers if the client says nothing.
const SHOWN: usize = 10;

/// A command that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCommand {
    /// When it was done, as Unix time in seconds.
    pub unix_s: u64,
    /// How long it took.
    pub took: Duration,
    /// Its arguments, shortened; passwords are left out.
    pub arguments: Vec<Box<[u8]>>,
    /// Where its client is.
    pub peer: SocketAddr,
    /// The name of its connection.
    pub client_name: Box<[u8]>,
}

impl SlowCommand {
    /// The arguments of a request for the command of that name, as an entry keeps them.
    pub fn arguments_of(name: &str, request: Request<'_>) -> Vec<Box<[u8]>> {
        let kept = match request.len() {
            few if few <= ARGUMENTS_MAX => few,
            _ => ARGUMENTS_MAX - 1,
        };
        let argument = |(position, argument): (usize, &[u8])| -> Box<[u8]> {
            if is_secret(name, request, position) {
                return Box::from(&b"(redacted)"[..]);
            }
            if argument.len() <= ARGUMENT_BYTES_MAX {
                return argument.into();
            }
            let (start, rest) = argument.split_at(ARGUMENT_BYTES_MAX);
            let more = format!("... ({} more bytes)", rest.len());
            [start, more.as_bytes()].concat().into()
        };
        let mut arguments: Vec<Box<[u8]>> = request.iter().take(kept).enumerate().map(argument).collect();
        if kept < request.len() {
            let more = format!("... ({} more arguments)", request.len() - kept);
            arguments.push(more.into_bytes().into());
        }
        arguments
    }
}

/// Slow commands with their ids, the oldest first.
type Ring = VecDeque<(u64, Arc<SlowCommand>)>;

/// The slow commands of a node.
#[derive(Debug)]
pub struct SlowLog {
    slower_than_us: AtomicU64,
    entries_max: AtomicUsize,
    next_id: AtomicU64,
    /// Of each worker.
    by_worker: Box<[Mutex<Ring>]>,
}

impl SlowLog {
    /// A log with nothing in it.
    pub fn new(workers: usize, slower_than_us: u64, entries_max: usize) -> Self {
        Self {
            slower_than_us: AtomicU64::new(slower_than_us),
            entries_max: AtomicUsize::new(entries_max),
            next_id: AtomicU64::new(0),
            by_worker: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// Commands that take so long are noted; none if this is [`Duration::MAX`].
    #[inline]
    pub fn slower_than(&self) -> Duration {
        match self.slower_than_us.load(Ordering::Relaxed) {
            NEVER_US => Duration::MAX,
            us => Duration::from_micros(us),
        }
    }

    /// Sets it in microseconds; nothing is noted below 0.
    pub fn set_slower_than(&self, us: i64) {
        self.slower_than_us
            .store(u64::try_from(us).unwrap_or(NEVER_US), Ordering::Relaxed);
    }

    /// As CONFIG GET shows it.
    pub fn slower_than_us(&self) -> i64 {
        // It was one, or comes from a setting that is far smaller.
        self.slower_than_us.load(Ordering::Relaxed) as i64
    }

    /// How many entries are kept.
    pub fn entries_max(&self) -> usize {
        self.entries_max.load(Ordering::Relaxed)
    }

    /// Sets how many are kept.
    pub fn set_entries_max(&self, entries: usize) {
        self.entries_max.store(entries, Ordering::Relaxed);
        for worker in &self.by_worker {
            let mut ring = lock(worker);
            let surplus = ring.len().saturating_sub(entries);
            ring.drain(..surplus);
        }
    }

    /// Notes a command of a worker. `false` if an older one had to go for it.
    pub fn note(&self, worker: usize, command: SlowCommand) -> bool {
        let most = self.entries_max();
        let mut ring = lock(&self.by_worker[worker]);
        let had_room = ring.len() < most;
        while ring.len() >= most.max(1) {
            ring.pop_front();
        }
        if most > 0 {
            ring.push_back((self.next_id.fetch_add(1, Ordering::Relaxed), Arc::new(command)));
        }
        had_room
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let all: usize = self.by_worker.iter().map(|ring| lock(ring).len()).sum();
        all.min(self.entries_max())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.by_worker.iter().for_each(|ring| lock(ring).clear());
    }

    /// The newest, newest first. Shared, not copied: their worker waits meanwhile if it has another.
    fn newest(&self, count: usize) -> Vec<(u64, Arc<SlowCommand>)> {
        let count = count.min(self.entries_max());
        let mut newest: Vec<_> = Vec::new();
        for ring in &self.by_worker {
            newest.extend(lock(ring).iter().rev().take(count).cloned());
        }
        newest.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        newest.truncate(count);
        newest
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `SLOWLOG GET [count]`
pub(crate) fn get(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    if call.request.len() > 3 {
        return Err(CommandError::wrong_subcommand(call.request));
    }
    let count = match call.request.get(2).map(parse_integer) {
        None => SHOWN,
        Some(Some(-1)) => usize::MAX,
        Some(count) => count
            .and_then(|count| usize::try_from(count).ok())
            .ok_or(CommandError::Refused("count should be greater than or equal to -1"))?,
    };
    let newest = call.node.slowlog().newest(count);
    let mut reply = call.reply();
    reply.array(newest.len());
    for (id, command) in &newest {
        reply.array(6);
        // All far below 2^63.
        for number in [*id, command.unix_s, command.took.as_micros() as u64] {
            reply.int(number as i64);
        }
        reply.array(command.arguments.len());
        for argument in &command.arguments {
            reply.bulk(argument);
        }
        reply.bulk(command.peer.to_string().as_bytes());
        reply.bulk(&command.client_name);
    }
    Ok(())
}

/// `SLOWLOG LEN`
pub(crate) fn len(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let len = call.node.slowlog().len();
    call.reply().int(len as i64);
    Ok(())
}

/// `SLOWLOG RESET`
pub(crate) fn reset(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.node.slowlog().clear();
    call.reply().ok();
    Ok(())
}

/// `SLOWLOG HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "SLOWLOG",
        &[
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
            "LEN",
            "    Return the length of the slowlog.",
            "RESET",
            "    Reset the slowlog.",
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_node::{TestNode, run, session};
    use crate::test_request::{with_line, with_request};

    fn command(name: &str) -> SlowCommand {
        SlowCommand {
            unix_s: 1_000,
            took: Duration::from_micros(20_000),
            arguments: vec![Box::from(name.as_bytes())],
            peer: ([127, 0, 0, 1], 4_000).into(),
            client_name: Box::from(&b"me"[..]),
        }
    }

    fn names(log: &SlowLog, count: usize) -> Vec<String> {
        let newest = log.newest(count);
        let text = |(_, command): &(u64, Arc<SlowCommand>)| String::from_utf8_lossy(&command.arguments[0]).into_owned();
        newest.iter().map(text).collect()
    }

    #[test]
    fn the_newest_of_all_workers_are_kept() {
        let log = SlowLog::new(2, 10, 3);
        for (number, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            assert!(log.note(number % 2, command(name)));
        }
        assert_eq!(names(&log, usize::MAX), ["e", "d", "c"]);
        assert_eq!((names(&log, 1), log.len()), (vec!["e".to_owned()], 3));
        assert!(!log.note(0, command("f")), "a has to go");
        log.set_entries_max(1);
        assert_eq!((names(&log, 9), log.len()), (vec!["f".to_owned()], 1));
        log.set_entries_max(0);
        log.note(0, command("g"));
        assert!(log.is_empty());
        log.set_entries_max(5);
        log.note(1, command("h"));
        assert_eq!(log.newest(9)[0].0, 6, "ids are not used twice");
        log.clear();
        assert!(log.is_empty());
    }

    #[test]
    fn long_arguments_and_passwords_are_not_kept() {
        let long = [b'x'; 200];
        let many: Vec<&[u8]> = std::iter::repeat_n(&long[..], 40).collect();
        let kept = with_request(&many, |request| SlowCommand::arguments_of("mget", request));
        assert_eq!(kept.len(), 32);
        assert_eq!(&kept[0][..], [&long[..128], b"... (72 more bytes)"].concat());
        assert_eq!(&kept[31][..], b"... (9 more arguments)");
        let few = with_request(&many[..32], |request| SlowCommand::arguments_of("mget", request));
        assert!(few.len() == 32 && few[31].len() == 147);
        let auth = with_line("AUTH secret", |request| SlowCommand::arguments_of("auth", request));
        assert_eq!(&auth[1][..], b"(redacted)");
    }

    #[test]
    fn get_len_and_reset() {
        let node = TestNode::default();
        let mut session = session(&node, 1);
        let mut say = |line: &str| with_line(line, |request| run(&node, &mut session, request));
        assert_eq!(say("SLOWLOG GET"), "*0\r\n");
        node.slowlog.note(0, command("get"));
        assert_eq!(
            say("SLOWLOG GET -1"),
            "*1\r\n*6\r\n:0\r\n:1000\r\n:20000\r\n*1\r\n$3\r\nget\r\n$14\r\n127.0.0.1:4000\r\n$2\r\nme\r\n"
        );
        assert_eq!(say("SLOWLOG GET 0"), "*0\r\n");
        assert_eq!(say("SLOWLOG LEN"), ":1\r\n");
        assert_eq!(say("SLOWLOG RESET"), "+OK\r\n");
        assert_eq!(say("SLOWLOG LEN"), ":0\r\n");
        for bad in ["x", "-2", "1.5"] {
            assert_eq!(
                say(&format!("SLOWLOG GET {bad}")),
                "-ERR count should be greater than or equal to -1\r\n"
            );
        }
    }

    #[test]
    fn settings_change_while_the_node_runs() {
        let node = TestNode::default();
        let mut session = session(&node, 1);
        let mut say = |line: &str| with_line(line, |request| run(&node, &mut session, request));
        assert_eq!(
            say("CONFIG SET SLOWLOG-MAX-LEN 5 slowlog-log-slower-than -1"),
            "+OK\r\n"
        );
        assert_eq!(
            (node.slowlog.entries_max(), node.slowlog.slower_than()),
            (5, Duration::MAX)
        );
        assert_eq!(node.slowlog.slower_than_us(), -1);
        // All or nothing.
        assert_eq!(
            say("CONFIG SET slowlog-max-len 6 slowlog-log-slower-than -2"),
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - argument must be between -1 and \
             9223372036854775807 inclusive\r\n"
        );
        assert_eq!(node.slowlog.entries_max(), 5);
        for (line, error) in [
            ("a b", "Unknown option or number of arguments for CONFIG SET - 'a'"),
            ("a b c", "syntax error"),
            (
                "slowlog-max-len x",
                "CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument couldn't be parsed into an integer",
            ),
            (
                "slowlog-max-len 5 slowlog-MAX-len 6",
                "CONFIG SET failed (possibly related to argument 'slowlog-max-len') - duplicate parameter",
            ),
            (
                "maxmemory 1",
                "CONFIG SET failed (possibly related to argument 'maxmemory') - can't set immutable config",
            ),
        ] {
            assert_eq!(say(&format!("CONFIG SET {line}")), format!("-ERR {error}\r\n"));
        }
    }
}
