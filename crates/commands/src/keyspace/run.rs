//! A command over all keys, as a state machine.

use super::{
    KeyList, KeyspaceAnswer, KeyspaceCommand, KeyspaceLimits, KeyspaceOp, Pattern, STEP_ENTRIES_MAX, ScanCursor,
    ScanOp, TypeFilter,
};
use crate::{CommandError, Env};
use std::ops::Range;
use std::sync::Arc;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};

/// How many keys SCAN looks at if the client says nothing.
const SCAN_COUNT: usize = 10;

/// A command over all keys, under way. Ask the shard that [`ask`](Self::ask) names, give the answer to
/// [`take`](Self::take), and so on until `ask` says nothing; then [`finish`](Self::finish).
#[derive(Debug)]
pub struct KeyspaceRun {
    db: u8,
    /// The slots of each shard, in ascending order.
    shards: Arc<[Range<u16>]>,
    /// The shard that is asked next; past the end when all have answered.
    at: usize,
    limits: KeyspaceLimits,
    job: Job,
}

#[derive(Debug)]
enum Job {
    Count {
        total: usize,
    },
    Flush {
        db: Option<u8>,
        /// SYNC: the memory is to be free before the reply.
        wait: bool,
        freeing: bool,
    },
    Keys {
        op: ScanOp,
        keys: KeyList,
    },
    Scan {
        op: ScanOp,
        keys: KeyList,
        /// Entries still to be looked at.
        want: usize,
        /// Where the next call goes on; nothing at the end.
        next: Option<ScanCursor>,
    },
    Random {
        /// Buckets of each shard, as far as they have answered.
        lens: Vec<usize>,
        draw: u64,
        /// Shards that are still to be asked for a key.
        tries: usize,
        found: Option<Box<[u8]>>,
    },
}

impl KeyspaceRun {
    /// Reads the arguments. `shards` are the slots of each shard, in ascending order and without gaps; `keys_max` bounds what KEYS
    /// answers and SCAN looks at.
    ///
    /// # Errors
    /// What Redis says of arguments that it does not take.
    pub fn new(
        command: KeyspaceCommand,
        env: &Env,
        request: Request<'_>,
        shards: Arc<[Range<u16>]>,
        limits: KeyspaceLimits,
    ) -> Result<Self, CommandError> {
        debug_assert!(shards.windows(2).all(|pair| pair[0].end == pair[1].start));
        let mut run = Self {
            db: env.db,
            shards,
            at: 0,
            limits,
            job: Job::Count { total: 0 },
        };
        match command {
            KeyspaceCommand::DbSize => {}
            KeyspaceCommand::FlushAll => run.job = flush(None, request)?,
            KeyspaceCommand::FlushDb => run.job = flush(Some(env.db), request)?,
            KeyspaceCommand::Keys => {
                run.job = Job::Keys {
                    op: ScanOp {
                        db: env.db,
                        cursor: ScanCursor::START,
                        count: STEP_ENTRIES_MAX,
                        pattern: Pattern::new(request.arg(1), limits.pattern_bytes_max)?,
                        of_type: TypeFilter::Any,
                    },
                    keys: KeyList::default(),
                };
            }
            KeyspaceCommand::RandomKey => {
                run.job = Job::Random {
                    lens: Vec::new(),
                    draw: env.now_us.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    tries: run.shards.len(),
                    found: None,
                };
            }
            KeyspaceCommand::Scan => run.start_scan(request)?,
        }
        Ok(run)
    }

    fn start_scan(&mut self, request: Request<'_>) -> Result<(), CommandError> {
        let number = crate::elements::parse_cursor(request.arg(1))?;
        let mut op = ScanOp {
            db: self.db,
            cursor: ScanCursor::START,
            count: 0,
            pattern: None,
            of_type: TypeFilter::Any,
        };
        let mut want = SCAN_COUNT;
        let mut at = 2;
        while at < request.len() {
            let (option, Some(value)) = (request.arg(at), request.get(at + 1)) else {
                return Err(CommandError::Syntax);
            };
            if option.eq_ignore_ascii_case(b"COUNT") {
                let count = parse_integer(value).ok_or(CommandError::NotAnInteger)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0);
                want = count.ok_or(CommandError::Syntax)?.min(self.limits.keys_max);
            } else if option.eq_ignore_ascii_case(b"MATCH") {
                op.pattern = Pattern::new(value, self.limits.pattern_bytes_max)?;
            } else if option.eq_ignore_ascii_case(b"TYPE") {
                op.of_type = TypeFilter::named(value);
            } else {
                return Err(CommandError::Syntax);
            }
            at += 2;
        }
        // A number that no call has answered is past the end, as it is for Redis.
        let next = ScanCursor::from_number(number);
        self.at = match next {
            None => self.shards.len(),
            Some(cursor) => {
                op.cursor = cursor;
                let has_slot = |slots: &Range<u16>| slots.contains(&cursor.slot());
                self.shards.iter().position(has_slot).unwrap_or(self.shards.len())
            }
        };
        self.job = Job::Scan {
            op,
            keys: KeyList::default(),
            want,
            next: None,
        };
        Ok(())
    }

    /// The shard to ask next, and what; nothing when the reply can be written.
    pub fn ask(&self) -> Option<(usize, KeyspaceOp)> {
        if self.at >= self.shards.len() {
            return None;
        }
        let op = match &self.job {
            Job::Count { .. } => KeyspaceOp::Len { db: self.db },
            Job::Flush { freeing: true, .. } => KeyspaceOp::Free,
            Job::Flush { db, .. } => KeyspaceOp::Flush { db: *db },
            Job::Keys { op, .. } => KeyspaceOp::Scan(op.clone()),
            Job::Scan { op, want, .. } => KeyspaceOp::Scan(ScanOp {
                count: (*want).min(STEP_ENTRIES_MAX),
                ..op.clone()
            }),
            Job::Random { lens, .. } if lens.len() < self.shards.len() => KeyspaceOp::Len { db: self.db },
            Job::Random { .. } => KeyspaceOp::Random { db: self.db },
        };
        Some((self.at, op))
    }

    /// Takes the answer to what [`ask`](Self::ask) said last.
    ///
    /// # Errors
    /// Too many keys; the command is over then.
    pub fn take(&mut self, answer: KeyspaceAnswer) -> Result<(), CommandError> {
        let shards = self.shards.len();
        match (&mut self.job, answer) {
            (Job::Count { total }, KeyspaceAnswer::Len(len)) => {
                *total += len;
                self.at += 1;
            }
            (Job::Flush { wait, freeing, .. }, KeyspaceAnswer::Flushed) => {
                self.at += 1;
                if self.at == shards && *wait {
                    *freeing = true;
                    self.at = 0;
                }
            }
            (Job::Flush { .. }, KeyspaceAnswer::Freed { more }) => self.at += usize::from(!more),
            (Job::Keys { op, keys }, KeyspaceAnswer::Scanned(scanned)) => {
                keys.append(&scanned.keys);
                if keys.len() > self.limits.keys_max || keys.is_too_large() {
                    return Err(CommandError::TooManyKeys);
                }
                self.at = after(&self.shards, self.at, scanned.next, op);
            }
            (Job::Scan { op, keys, want, next }, KeyspaceAnswer::Scanned(scanned)) => {
                keys.append(&scanned.keys);
                *want = want.saturating_sub(scanned.looked_at);
                self.at = after(&self.shards, self.at, scanned.next, op);
                if (*want == 0 || keys.is_too_large()) && self.at < shards {
                    *next = Some(op.cursor);
                    self.at = shards;
                }
            }
            (Job::Random { lens, draw, tries, .. }, KeyspaceAnswer::Len(len)) => {
                lens.push(len);
                self.at += 1;
                if self.at == shards {
                    self.at = pick(lens, *draw);
                    if self.at == shards {
                        *tries = 0;
                    }
                }
            }
            (Job::Random { tries, found, .. }, KeyspaceAnswer::Random(key)) => {
                *tries = tries.saturating_sub(1);
                self.at = if key.is_some() || *tries == 0 {
                    shards
                } else {
                    (self.at + 1) % shards
                };
                *found = key;
            }
            (job, answer) => debug_assert!(false, "{answer:?} for {job:?}"),
        }
        Ok(())
    }

    /// Writes the reply.
    pub fn finish(self, env: &Env, out: &mut Vec<u8>) {
        debug_assert!(self.ask().is_none());
        let mut reply = ReplyWriter::new(out, env.proto);
        match self.job {
            Job::Count { total } => reply.int(total as i64),
            Job::Flush { .. } => reply.ok(),
            Job::Keys { keys, .. } => keys.write(&mut reply),
            Job::Scan { keys, next, .. } => {
                reply.array(2);
                // At most 53 bits.
                reply.bulk_int(next.map_or(0, ScanCursor::to_number) as i64);
                keys.write(&mut reply);
            }
            Job::Random { found: None, .. } => reply.null(),
            Job::Random { found: Some(key), .. } => reply.bulk(&key),
        }
    }
}

/// Points a scan at what follows a step in shard `at`, and says which shard that is.
fn after(shards: &[Range<u16>], at: usize, next: Option<ScanCursor>, op: &mut ScanOp) -> usize {
    match (next, shards.get(at + 1)) {
        (Some(next), _) => {
            debug_assert_ne!(next, op.cursor);
            op.cursor = next;
            at
        }
        (None, Some(slots)) => {
            op.cursor = ScanCursor::at_slot(slots.start);
            at + 1
        }
        (None, None) => at + 1,
    }
}

/// A shard, each as likely as it has buckets; the number of shards if all are empty.
fn pick(lens: &[usize], draw: u64) -> usize {
    let total: usize = lens.iter().sum();
    let mut rank = ((u128::from(draw) * total as u128) >> 64) as usize;
    let holds = |&len: &usize| {
        let here = rank < len;
        rank = rank.saturating_sub(len);
        here
    };
    lens.iter().position(holds).unwrap_or(lens.len())
}

fn flush(db: Option<u8>, request: Request<'_>) -> Result<Job, CommandError> {
    let wait = match (request.len(), request.get(1)) {
        (1, _) => false,
        (2, Some(word)) if word.eq_ignore_ascii_case(b"ASYNC") => false,
        (2, Some(word)) if word.eq_ignore_ascii_case(b"SYNC") => true,
        _ => return Err(CommandError::Syntax),
    };
    Ok(Job::Flush {
        db,
        wait,
        freeing: false,
    })
}
