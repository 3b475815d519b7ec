//! The policy under test, run by the host, and its buckets.

use std::cell::RefCell;

use tollgate_script::{
    Params, ParamsId, PolicyFault, PolicyHost, PolicyId, PolicyLimits, PolicySource, State, Stored, builtin_policies,
};

use super::{Answer, Limit};

/// A policy in a host of its own.
pub struct Subject {
    host: RefCell<PolicyHost>,
    policy: PolicyId,
}

/// A bucket as it is stored: its state, and the limit under which that was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    pub limit: Limit,
    pub numbers: Vec<f64>,
    pub bytes: Vec<u8>,
}

impl Bucket {
    /// A bucket that does not exist.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            numbers: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.bytes.is_empty()
    }

    fn state(&self) -> State<'_> {
        if self.bytes.is_empty() {
            State::Numbers(&self.numbers)
        } else {
            State::Bytes(&self.bytes)
        }
    }

    fn store(&mut self, limit: &Limit, state: State<'_>) {
        self.limit = *limit;
        self.numbers.clear();
        self.bytes.clear();
        match state {
            State::Numbers(numbers) => self.numbers.extend_from_slice(numbers),
            State::Bytes(bytes) => self.bytes.extend_from_slice(bytes),
        }
    }
}

impl Subject {
    /// A policy that is built into the binary.
    pub fn builtin(name: &str) -> Self {
        let mut sources = builtin_policies();
        sources.retain(|source| source.name == name);
        Self::of(&sources[0])
    }

    /// The policy of a file.
    pub fn of(source: &PolicySource) -> Self {
        let sources = [source.clone()];
        let host = PolicyHost::new(&sources, PolicyLimits::default()).unwrap();
        let policy = host.policy(source.name.as_bytes()).unwrap();
        Self {
            host: RefCell::new(host),
            policy,
        }
    }

    fn intern(&self, host: &mut PolicyHost, limit: &Limit) -> ParamsId {
        let params = Params {
            limit: limit.limit,
            window_us: limit.window_us,
            burst: limit.burst,
        };
        host.intern(self.policy, params).unwrap()
    }

    /// One operation: `call` gets the host, the parameters in force and what is stored.
    fn with<R>(
        &self,
        limit: &Limit,
        bucket: &Bucket,
        call: impl FnOnce(&mut PolicyHost, ParamsId, Option<Stored<'_>>) -> R,
    ) -> R {
        let host = &mut *self.host.borrow_mut();
        let params = self.intern(host, limit);
        let stored = (!bucket.is_empty()).then(|| Stored {
            params: self.intern(host, &bucket.limit),
            state: bucket.state(),
        });
        call(host, params, stored)
    }

    /// A check; the bucket is taken over to `limit` first when that has changed.
    pub fn check(&self, bucket: &mut Bucket, limit: &Limit, now_us: u64, cost: u64) -> Answer {
        self.try_check(bucket, limit, now_us, cost).unwrap()
    }

    /// The same with the policy's fault.
    pub fn try_check(&self, bucket: &mut Bucket, limit: &Limit, now_us: u64, cost: u64) -> Result<Answer, PolicyFault> {
        let before = bucket.clone();
        self.with(limit, &before, |host, params, stored| {
            let (outcome, state) = host.check_one(params, stored, now_us as i64, cost, false)?;
            bucket.store(limit, state);
            Ok(Answer {
                allowed: outcome.allowed,
                remaining: outcome.remaining as u64,
                retry_after_us: outcome.retry_after_us,
                full_at_us: outcome.full_at_us as u64,
            })
        })
    }

    /// What a check would answer; nothing is stored.
    pub fn look(&self, bucket: &Bucket, limit: &Limit, now_us: u64, cost: u64) -> Answer {
        self.check(&mut bucket.clone(), limit, now_us, cost)
    }

    /// When the bucket is full again if left alone; 0 when nothing is stored.
    pub fn full_at(&self, bucket: &Bucket) -> u64 {
        self.with(&bucket.limit, bucket, |host, _, stored| {
            stored.map_or(0, |stored| host.full_at(stored).unwrap() as u64)
        })
    }

    /// A refund.
    pub fn give(&self, bucket: &mut Bucket, limit: &Limit, now_us: u64, amount: u64) {
        let before = bucket.clone();
        self.with(limit, &before, |host, params, stored| {
            let state = host.give(params, stored, now_us as i64, amount);
            bucket.store(limit, state.unwrap());
        });
    }

    /// A debt.
    pub fn take(&self, bucket: &mut Bucket, limit: &Limit, now_us: u64, amount: u64) {
        let before = bucket.clone();
        self.with(limit, &before, |host, params, stored| {
            let state = host.take(params, stored, now_us as i64, amount);
            bucket.store(limit, state.unwrap());
        });
    }

    /// A changed limit.
    pub fn resize(&self, bucket: &mut Bucket, limit: &Limit, now_us: u64) {
        let before = bucket.clone();
        self.with(limit, &before, |host, params, stored| match stored {
            None => bucket.limit = *limit,
            Some(stored) => {
                let state = host.resize(params, stored, now_us as i64);
                bucket.store(limit, state.unwrap());
            }
        });
    }

    /// The sub-buckets of a bucket, one for each of `parts`.
    pub fn split(&self, bucket: &Bucket, parts: &[Limit], now_us: u64) -> Vec<Bucket> {
        let k = parts.len() as u32;
        let part = |(i, limit): (usize, &Limit)| {
            let mut part = Bucket::new(*limit);
            self.with(&bucket.limit, bucket, |host, params, stored| {
                let part_params = self.intern(host, limit);
                let state = host.split(params, part_params, stored, now_us as i64, i as u32, k);
                part.store(limit, state.unwrap());
            });
            part
        };
        parts.iter().enumerate().map(part).collect()
    }

    /// The bucket that two sub-buckets become.
    pub fn merge(&self, limit: &Limit, a: &Bucket, b: &Bucket, now_us: u64) -> Bucket {
        let mut merged = Bucket::new(*limit);
        let host = &mut *self.host.borrow_mut();
        let params = self.intern(host, limit);
        let [a, b] = [a, b].map(|part| Stored {
            params: self.intern(host, &part.limit),
            state: part.state(),
        });
        let state = host.merge(params, a, b, now_us as i64);
        merged.store(limit, state.unwrap());
        merged
    }
}
