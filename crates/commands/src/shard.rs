//! A shard: the entries of a range of slots, and the policies that decide on them. One thread owns it.

use crate::carry::Carry;
use crate::check::{CheckQueue, OrderMemo};
use crate::draws::Draws;
use crate::env::Env;
use crate::error::CommandError;
use crate::holds::Holds;
use crate::interest::Interest;
use crate::stats::{FaultKind, PolicyStats, ShardStats, Verdict};
use crate::table::{Rest, Run, Spec};
use crate::undo::UndoLog;
use crate::work::{self, EachKey, Popped};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use tollgate_limiter::{AMOUNT_MAX, Burst, BurstRule, DEFAULT_POLICY, Quota, RuleError, RuleSet, Terms};
use tollgate_protocol::{ReplyWriter, Request};
use tollgate_script::{
    Batch, Fault, Fields, Params, ParamsId, PolicyError, PolicyFault, PolicyHost, PolicyId, PolicyInfo, PolicyLimits,
    PolicySource,
};
use tollgate_store::{Expiry, Key, KeyMemo, NO_PARAMS, Role, State, Store, Trash};
use tollgate_values::HashSeed;

/// What a shard does when it has no memory for a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Drops the buckets that are cheapest to lose: those that are full again soonest.
    #[default]
    Shed,
    /// Refuses new keys with OOM.
    Refuse,
}

/// How a shard is made.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// The slots it owns.
    pub slots: Range<u16>,
    /// Seed of the store's hash; random, so that collisions cannot be prepared.
    pub seed: u64,
    /// The node's clock at the start, in microseconds.
    pub now_us: u64,
    /// Policy files.
    pub policies: Arc<[PolicySource]>,
    /// Bounds of the policies.
    pub policy_limits: PolicyLimits,
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// Bytes that entries may take; 0 is no bound.
    pub max_memory_bytes: usize,
    /// What happens at that bound.
    pub when_full: WhenFull,
    /// The longest that a bucket which is full again is kept, in microseconds.
    pub idle_us: u64,
    /// The longest that a string may become, in bytes.
    pub string_bytes_max: usize,
    /// The longest pattern of one command, in bytes.
    pub pattern_bytes_max: usize,
    /// Random elements that one command may answer where one can come again.
    pub random_picks_max: usize,
    /// Keys that one command may wait for.
    pub awaited_keys_max: usize,
    /// Bytes that a run may take to note what its writes are taken back with.
    pub undo_bytes_max: usize,
    /// Seed of the hashes of values' elements; one a node, so that a value can be lent.
    pub hash_seed: HashSeed,
}

/// The parameters that the shard interned last: most traffic has few, and runs of one.
#[derive(Debug, Clone, Copy)]
struct LastParams {
    policy: PolicyId,
    quota: Quota,
    id: ParamsId,
}

/// A rule as this shard sees it.
#[derive(Debug, Clone, Copy)]
struct ShardRule {
    policy: PolicyId,
    quota: Quota,
}

/// What [`Shard::run`] did.
#[must_use]
pub enum Step {
    /// The command is answered, or queued.
    Done,
    /// Nothing happened yet: flush the queue, then run the same command again.
    FlushFirst,
    /// Nothing happened yet: a key of the command is held, see [`Shard::blocked_key`]. Run it again when it may be free.
    Wait,
    /// The command has begun: go on with [`Shard::go_on`] until it is done, and let nobody have its keys meanwhile.
    More(Box<dyn Rest>),
}

/// A store and its policies.
pub struct Shard {
    pub(crate) store: Store,
    pub(crate) policies: PolicyHost,
    pub(crate) batch: Batch,
    pub(crate) stats: ShardStats,
    pub(crate) rules: Arc<RuleSet>,
    shard_rules: Vec<ShardRule>,
    default_policy: PolicyId,
    last_params: Option<LastParams>,
    /// Whoever replaces rules or policies replaces this, too.
    pub(crate) last_order: OrderMemo,
    pub(crate) max_memory_bytes: usize,
    pub(crate) when_full: WhenFull,
    idle_us: u64,
    pub(crate) string_bytes_max: usize,
    pub(crate) pattern_bytes_max: usize,
    pub(crate) random_picks_max: usize,
    awaited_keys_max: usize,
    pub(crate) undo_bytes_max: usize,
    draws: Draws,
    pub(crate) trash: Vec<Trash>,
    pub(crate) hash_seed: HashSeed,
    /// What the run that is under way has written, if that may have to be taken back.
    pub(crate) undo: Option<UndoLog>,
    pub(crate) holds: Holds,
    pub(crate) interest: Interest,
    pub(crate) carry: Carry,
    /// The key that a run has asked for last.
    pub(crate) key_memo: RefCell<KeyMemo>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("slots", &self.store.slots())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Shard {
    /// Compiles the policies and makes an empty store. Fails when a policy file or a rule is not acceptable.
    pub fn new(config: ShardConfig) -> Result<Self, ShardError> {
        let mut policies = PolicyHost::new(&config.policies, config.policy_limits)?;
        let default_policy = policies
            .policy(DEFAULT_POLICY.as_bytes())
            .ok_or(ShardError::NoDefaultPolicy)?;
        let mut shard_rules = Vec::with_capacity(config.rules.len());
        for number in 0..config.rules.len() as u32 {
            let Some(rule) = config.rules.by_number(number) else {
                break;
            };
            let policy = policies
                .policy(rule.policy.as_bytes())
                .ok_or_else(|| ShardError::RulePolicy {
                    id: rule.id.clone(),
                    policy: rule.policy.clone(),
                })?;
            let quota = rule.quota(&terms_of(policies.info(policy)))?;
            let params = policies
                .intern(policy, params_of(quota))
                .map_err(|e| ShardError::RuleLimits(e.max))?;
            // A rule that its policy can never decide must not wait for its first check to say so.
            policies
                .probe(params, config.now_us as i64)
                .map_err(|fault| ShardError::RuleFault {
                    id: rule.id.clone(),
                    reason: fault.fault.to_string(),
                })?;
            shard_rules.push(ShardRule { policy, quota });
        }
        let stats = ShardStats {
            policies: vec![PolicyStats::default(); policies.policies().count()],
            ..ShardStats::default()
        };
        Ok(Self {
            store: Store::new(config.slots, config.seed, config.now_us),
            batch: Batch::new(),
            policies,
            stats,
            rules: config.rules,
            shard_rules,
            default_policy,
            last_params: None,
            last_order: OrderMemo::default(),
            max_memory_bytes: config.max_memory_bytes,
            when_full: config.when_full,
            idle_us: config.idle_us,
            string_bytes_max: config.string_bytes_max,
            pattern_bytes_max: config.pattern_bytes_max,
            random_picks_max: config.random_picks_max,
            awaited_keys_max: config.awaited_keys_max,
            undo_bytes_max: config.undo_bytes_max,
            draws: Draws::new(config.seed),
            trash: Vec::new(),
            hash_seed: config.hash_seed,
            undo: None,
            holds: Holds::default(),
            interest: Interest::default(),
            carry: Carry::default(),
            key_memo: RefCell::default(),
        })
    }

    /// Runs or queues a command whose key, if any, is in this shard, and writes the reply.
    pub fn run(
        &mut self,
        env: &Env,
        queue: &mut CheckQueue,
        spec: &'static Spec,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Step {
        if self.has_holds() && self.blocked_key(spec, request).is_some() {
            return if queue.is_empty() { Step::Wait } else { Step::FlushFirst };
        }
        let result = match spec.run {
            _ if self.is_undo_full(spec) => Err(CommandError::UndoFull(self.undo_bytes_max)),
            Run::Check(parse) => {
                if queue.is_full() {
                    return Step::FlushFirst;
                }
                let order = match self.last_order.recall(spec, request) {
                    Some(order) => Ok(order),
                    None => parse(self, request).inspect(|order| self.last_order.learn(spec, request, *order)),
                };
                match order {
                    Ok(order) if self.policies.info(order.policy).fields != Fields::Buffer => {
                        self.queue_check(env, queue, &order, request)
                    }
                    // A policy with a buffer is decided alone; what came before it answers first.
                    Ok(_) | Err(_) if !queue.is_empty() => return Step::FlushFirst,
                    Ok(order) => self.check_alone(env, &order, request.arg(1), out),
                    Err(error) => Err(error),
                }
            }
            _ if !queue.is_empty() => return Step::FlushFirst,
            Run::Key(run) => run(self, env, request, out),
            Run::Keys(run) => match run(self, env, request, out) {
                Ok(None) => Ok(()),
                Ok(Some(rest)) => return Step::More(rest),
                Err(error) => Err(error),
            },
            // Whoever can wait calls it otherwise.
            Run::Block(blocking) => {
                let admitted = (blocking.timeout)(request).and_then(|_| self.admit_awaited(spec, request));
                match admitted.and_then(|()| (blocking.attempt)(self, env, request, out)) {
                    Ok(Popped::All) => Ok(()),
                    Ok(Popped::More(rest)) => return Step::More(rest),
                    Ok(Popped::Nothing) => {
                        blocking.write_nothing(&mut ReplyWriter::new(out, env.proto), true);
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Run::EachKey(run) => match work::begin(EachKey::new(run), self, env, request, out) {
                Ok(None) => Ok(()),
                Ok(Some(rest)) => return Step::More(rest),
                Err(error) => Err(error),
            },
            Run::Container | Run::Connection(_) | Run::Keyspace(_) | Run::Script(_) | Run::Worker(_) => {
                Err(CommandError::Other(format!("'{}' does not run in a shard", spec.name)))
            }
        };
        match result {
            Ok(()) if matches!(spec.run, Run::Check(_)) && !queue.is_empty() => Step::Done,
            Ok(()) => {
                queue.note_end(out.len());
                Step::Done
            }
            Err(_) if !queue.is_empty() => Step::FlushFirst,
            Err(error) => {
                match error {
                    CommandError::KeyTooLong(_) => self.stats.keys_too_long += 1,
                    CommandError::TooManyLimits(_) => self.stats.too_many_limits += 1,
                    CommandError::StringTooLong | CommandError::BitOffset { beyond_bound: true } => {
                        self.stats.strings_too_long += 1;
                    }
                    CommandError::PatternTooLong(_) => self.stats.patterns_too_long += 1,
                    CommandError::TooManyPicks(_) => self.stats.too_many_picks += 1,
                    CommandError::TooManyAwaited(_) => self.stats.too_many_awaited += 1,
                    CommandError::UndoFull(_) => self.stats.undo_full += 1,
                    _ => {}
                }
                error.write(out, env.proto);
                queue.note_end(out.len());
                Step::Done
            }
        }
    }

    /// Whether a command may wait for all of its keys.
    ///
    /// # Errors
    /// They are too many.
    pub fn admit_awaited(&self, spec: &Spec, request: Request<'_>) -> Result<(), CommandError> {
        match spec.key_positions(request).count() > self.awaited_keys_max {
            true => Err(CommandError::TooManyAwaited(self.awaited_keys_max)),
            false => Ok(()),
        }
    }

    /// Counts a command that was refused by [`Shard::admit_awaited`].
    pub fn note_too_many_awaited(&mut self) {
        self.stats.too_many_awaited += 1;
    }

    /// Goes on with a command that has begun, which is the only one of `queue`; whether it is done.
    pub fn go_on(
        &mut self,
        env: &Env,
        queue: &mut CheckQueue,
        rest: &mut dyn Rest,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let done = rest.step(self, env, request, out);
        if done {
            queue.note_end(out.len());
        }
        done
    }

    /// Commands refused since the last call because their pattern was too long.
    pub fn take_patterns_too_long(&mut self) -> u64 {
        std::mem::take(&mut self.stats.patterns_too_long)
    }

    /// What the shard has counted.
    pub fn stats(&self) -> &ShardStats {
        &self.stats
    }

    /// The entries.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The policies.
    pub fn policies(&self) -> &PolicyHost {
        &self.policies
    }

    /// The rules.
    pub fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// The rule of that id: its number, policy and parameters.
    pub(crate) fn rule(&self, id: &[u8]) -> Result<(u32, PolicyId, Quota), CommandError> {
        let unknown = || CommandError::UnknownRule(CommandError::quote(id));
        let (number, _) = self.rules.get(id).ok_or_else(unknown)?;
        let rule = self.shard_rules.get(number as usize).ok_or_else(unknown)?;
        Ok((number, rule.policy, rule.quota))
    }

    /// The policy of that name, or the default one.
    pub(crate) fn policy_or_default(&self, name: Option<&[u8]>) -> Result<PolicyId, CommandError> {
        match name {
            None => Ok(self.default_policy),
            Some(name) => self
                .policies
                .policy(name)
                .ok_or_else(|| CommandError::UnknownPolicy(CommandError::quote(name))),
        }
    }

    /// Interns parameters. The id stays valid until the next call unless it is retained.
    pub(crate) fn intern(&mut self, policy: PolicyId, quota: Quota) -> Result<ParamsId, CommandError> {
        if let Some(last) = self.last_params
            && last.quota == quota
            && last.policy == policy
        {
            return Ok(last.id);
        }
        let id = self
            .policies
            .intern(policy, params_of(quota))
            .map_err(|e| CommandError::TooManyLimits(e.max))?;
        self.policies.retain(id);
        if let Some(last) = self.last_params.replace(LastParams { policy, quota, id }) {
            self.policies.release(last.id);
        }
        Ok(id)
    }

    /// When a bucket may be dropped: some time after it is full again, or later if the user said so. A bucket that is used all
    /// the time is often full for a moment; dropping it then would only make work.
    ///
    /// The second value says whether it is what the user asked for: a bucket that is full only after that keeps no such mark.
    pub(crate) fn expiry(&self, full_at_us: u64, params: ParamsId, pinned: Option<Expiry>) -> (Expiry, bool) {
        if let Some(pinned) = pinned
            && pinned > Expiry::from_us(full_at_us)
        {
            return (pinned, true);
        }
        (
            Expiry::from_us(full_at_us.saturating_add(self.linger_us(params))),
            false,
        )
    }

    /// How long a bucket is kept once it is full again.
    pub(crate) fn linger_us(&self, params: ParamsId) -> u64 {
        let (_, params) = self.policies.params(params);
        params.window_us.min(LINGER_MAX_US).min(self.idle_us)
    }

    /// Stores the state of a bucket that is new or has changed its shape, keeping count of its parameters and of memory. A
    /// bucket that is full by now needs no memory and is removed, or not stored at all.
    pub(crate) fn store_state(&mut self, key: &Key<'_>, kept: Kept, state: State<'_>) -> Result<(), CommandError> {
        self.note_before_bucket(key);
        self.note_change(key);
        let mut place = self.store.find(key);
        let (is_new, may_grow) = match state {
            State::Numbers(numbers) => (numbers.is_empty(), false),
            State::Blob(bytes) => (bytes.is_empty(), true),
        };
        if is_new || (kept.full_at_us <= kept.clock_us && kept.pinned.is_none()) {
            if place.is_some() {
                self.remove_entry(key);
            }
            return Ok(());
        }
        if place.is_none() || may_grow {
            self.make_room(if may_grow { DROPS_FOR_BLOB } else { DROPS_FOR_NUMBERS })?;
            // What was dropped may be this very bucket.
            place = self.store.find(key);
        }
        let before = place.map(|place| ParamsId(self.store.params(place)));
        let (expiry, pinned) = self.expiry(kept.full_at_us, kept.params, kept.pinned);
        self.store
            .put(key, kept.params.0, expiry, pinned, state)
            .map_err(|e| CommandError::Other(e.to_string()))?;
        self.policies.retain(kept.params);
        if let Some(before) = before {
            self.policies.release(before);
        }
        Ok(())
    }

    /// Removes what a key holds, with nothing noted; whether that was anything.
    pub(crate) fn remove_unnoted(&mut self, key: &Key<'_>) -> bool {
        let Some(removed) = self.store.remove(key) else {
            return false;
        };
        if let Some(params) = removed.params {
            self.policies.release(ParamsId(params));
        }
        true
    }

    /// The next number of a cheap pseudo-random sequence.
    pub fn next_draw(&mut self) -> u64 {
        self.draws.next()
    }

    /// A sequence of its own, for a command that draws while it reads a value.
    pub(crate) fn draws(&mut self) -> Draws {
        Draws::new(self.draws.next())
    }

    /// Whether what is stored under `live` can be checked under `asked`. Not if it is a Redis value.
    #[inline]
    pub(crate) fn is_of_policy(&self, live: ParamsId, asked: ParamsId) -> bool {
        live.0 != NO_PARAMS && self.policies.same_policy(live, asked)
    }

    /// The error of a command that names one policy while the live bucket has another, or while the key holds a value.
    pub(crate) fn other_policy(&self, live: ParamsId, asked: PolicyId) -> CommandError {
        if live.0 == NO_PARAMS {
            return CommandError::WrongType;
        }
        let (live, _) = self.policies.params(live);
        let name = |policy| self.policies.info(policy).name.clone();
        CommandError::OtherPolicy {
            live: name(live),
            asked: name(asked),
        }
    }

    /// The error that a policy's fault is to the client, counted. A limit that is too large is the client's fault, and not counted.
    pub(crate) fn fault(&mut self, policy: PolicyId, fault: &PolicyFault) -> CommandError {
        if let Fault::LimitTooLarge { .. } = fault.fault {
            return CommandError::LimitRefused {
                policy: self.policies.info(policy).name.clone(),
                reason: fault.fault.to_string(),
            };
        }
        self.stats.count(policy, Verdict::Error);
        if let Some(stats) = self.stats.policies.get_mut(policy.index()) {
            stats.faults[FaultKind::of(&fault.fault) as usize] += 1;
        }
        CommandError::PolicyFault {
            policy: self.policies.info(policy).name.clone(),
            reason: fault.fault.to_string(),
        }
    }

    /// Does a bounded piece of the work that is never urgent: drops buckets that are full again and frees flushed ones. `now_us`
    /// is the node's clock. Answers whether there is more to do now; else the next pass over the entries may wait.
    pub fn tidy(&mut self, now_us: u64, entries_max: usize) -> bool {
        if !self.trash.is_empty() {
            self.free_trash(entries_max);
            return true;
        }
        if self.drop_remains(entries_max) {
            return true;
        }
        let Self {
            store,
            policies,
            stats,
            holds,
            interest,
            ..
        } = self;
        let watches_any = interest.watches_any();
        let mut gone = Vec::new();
        if !store.drop_buried(entries_max) {
            return true;
        }
        // Between commands nothing refers to parameters that are not retained.
        policies.end_epoch();
        if policies.trim_params(entries_max) {
            return true;
        }
        let progress = store.sweep(now_us, entries_max, &mut |dropped| {
            if holds.has(dropped.entry.key()) {
                // Nothing goes while a run is at it.
                return false;
            }
            if let Some(params) = dropped.entry.params() {
                policies.release(ParamsId(params));
            }
            if dropped.role != Role::Held {
                // What follows another node is dropped by its slot's clock, which is never ahead of the holder's: nobody is told.
                return true;
            }
            stats.expired += 1;
            if watches_any {
                gone.push((dropped.space, Box::from(dropped.entry.key())));
            }
            true
        });
        for (space, key) in gone {
            let key: Box<[u8]> = key;
            self.note_standing_change(space, &key);
        }
        !progress.wrapped
    }
}

/// Buckets dropped at most for one new bucket of a policy with number fields: a bound, so that no check stalls the shard.
const DROPS_FOR_NUMBERS: usize = 2;
/// The same for the state of a log, which may be as large as a thousand of the others.
const DROPS_FOR_BLOB: usize = 32;

/// The longest that a bucket is kept once it is full again; see [`Shard::expiry`].
const LINGER_MAX_US: u64 = 60_000_000;

/// What [`Shard::store_state`] needs to know of a state besides itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub full_at_us: u64,
    /// The slot's clock.
    pub clock_us: u64,
    /// An expiry that the user asked for.
    pub pinned: Option<Expiry>,
    pub params: ParamsId,
}

/// A quota as the policies take it.
pub(crate) fn params_of(quota: Quota) -> Params {
    Params {
        limit: quota.limit.get(),
        window_us: quota.window.as_us(),
        burst: quota.burst.get(),
    }
}

/// What a policy says of its parameters, in the words of the domain.
pub(crate) fn terms_of(info: &PolicyInfo) -> Terms<'_> {
    let burst = match info.burst {
        tollgate_script::BurstRule::Limit => BurstRule::Limit,
        tollgate_script::BurstRule::None => BurstRule::Refused,
        // The host has checked the range.
        tollgate_script::BurstRule::Tokens(tokens) => Burst::new(tokens).map_or(BurstRule::Limit, BurstRule::Fixed),
    };
    Terms {
        policy: &info.name,
        burst,
        limit_max: info.limit_max.unwrap_or(AMOUNT_MAX).min(AMOUNT_MAX),
    }
}

impl ShardError {
    /// The id of the rule that is at fault.
    pub fn rule_id(&self) -> Option<&str> {
        match self {
            Self::RulePolicy { id, .. } | Self::RuleFault { id, .. } | Self::Rule(RuleError::Field { id, .. }) => {
                Some(id)
            }
            Self::Rule(_) | Self::Policy(_) | Self::RuleLimits(_) | Self::NoDefaultPolicy => None,
        }
    }
}

/// Why a shard could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// A policy file is not acceptable.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A rule is not acceptable.
    #[error(transparent)]
    Rule(#[from] tollgate_limiter::RuleError),
    /// A rule names a policy that does not exist.
    #[error("rule '{id}': policy '{policy}' does not exist")]
    RulePolicy {
        /// The rule.
        id: String,
        /// The policy it names.
        policy: String,
    },
    /// A rule's policy cannot decide under the rule's limit.
    #[error("rule '{id}': its policy cannot decide: {reason}")]
    RuleFault {
        /// The rule.
        id: String,
        /// What the policy says.
        reason: String,
    },
    /// More different limits in the rules than a shard may intern.
    #[error("the rules have more than {0} different limits (limits.interned_limits)")]
    RuleLimits(usize),
    /// There is no default policy.
    #[error("there is no policy named '{DEFAULT_POLICY}'")]
    NoDefaultPolicy,
}
