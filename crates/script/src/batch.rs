//! A batch of checks as one image of bytes, which is copied into a Luau buffer, worked on there, and copied back.
//!
//! The image is a header and records of [`RECORD`] bytes; record `n` holds operation `n` and state `n`, which need not
//! belong together. `driver.luau` knows the same offsets. Numbers are little-endian.

use crate::error::PolicyFault;
use crate::params::ParamsId;

/// Most operations, and most states, in one batch.
pub const MAX_BATCH: usize = 64;

// The header.
pub(crate) const PROGRESS: usize = 0;
pub(crate) const STOP: usize = 4;
pub(crate) const COUNT: usize = 8;
pub(crate) const HEADER: usize = 16;
/// Size of a record: an operation of 56 bytes and a state of 48.
pub(crate) const RECORD: usize = 104;
pub(crate) const IMAGE_BYTES_MAX: usize = HEADER + MAX_BATCH * RECORD;

// An operation, from the start of its record.
const OP_SLOT: usize = 0;
const OP_STATE: usize = 4;
const OP_NOW: usize = 8;
const OP_COST: usize = 16;
const OP_PARAMS: usize = 24;
const OP_ROUTE: usize = 28;
const OP_STATUS: usize = 29;
const OP_ALLOWED: usize = 30;
/// What was asked for; [`OP_ROUTE`] is that, or 0 while the operation is not to be run.
const OP_KIND: usize = 31;
const OP_REMAINING: usize = 32;
const OP_RETRY: usize = 40;
const OP_FULL_AT: usize = 48;

/// Where the state is in a record.
const STATE: usize = 56;
// A state, from its start.
const STATE_PARAMS: usize = 0;
const STATE_SLOT: usize = 4;
const STATE_COUNT: usize = 8;
const STATE_CHANGED: usize = 9;
const STATE_FIELDS: usize = 16;

/// Most numbers that a state has.
pub(crate) const FIELDS_MAX: usize = 4;

/// What an operation does; the numbers are those of `driver.luau`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Check = 1,
    Peek = 2,
    FullAt = 3,
    Give = 4,
    Take = 5,
    Resize = 6,
    Split = 7,
    Merge = 8,
    MaxBytes = 9,
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Pending = 0,
    Done = 1,
    Failed = 2,
}

/// An operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpIx(pub(crate) u16);

/// A state of a batch; several operations may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateIx(pub(crate) u16);

/// A bucket's stored state, as it goes into a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateIn<'a> {
    /// The parameters under which it was stored; `None` for a bucket that does not exist.
    pub params: Option<ParamsId>,
    /// Its numbers, at most four, without trailing nils.
    pub fields: &'a [f64],
}

impl StateIn<'static> {
    /// The state of a bucket that does not exist.
    pub const NEW: StateIn<'static> = StateIn {
        params: None,
        fields: &[],
    };
}

/// What a check decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the cost was admitted (of a peek: would be).
    pub allowed: bool,
    /// Whole tokens left; 0 for a bucket in debt.
    pub remaining: i64,
    /// 0 when allowed, -1 when the cost is never admitted, else microseconds to wait.
    pub retry_after_us: i64,
    /// When the bucket is full again if left alone, in the caller's microseconds; not before `now`. A time beyond the
    /// range of `i64` is its maximum.
    pub full_at_us: i64,
}

/// Up to [`MAX_BATCH`] checks of policies with number fields, and the states that they read and write. Reusable.
#[derive(Debug)]
pub struct Batch {
    image: Vec<u8>,
    ops: usize,
    states: usize,
    faults: Vec<(usize, PolicyFault)>,
    pub(crate) time_us: u64,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            image: vec![0; IMAGE_BYTES_MAX],
            ops: 0,
            states: 0,
            faults: Vec::new(),
            time_us: 0,
        }
    }

    /// Empties the batch for its next use.
    pub fn clear(&mut self) {
        self.ops = 0;
        self.states = 0;
        self.faults.clear();
        self.time_us = 0;
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.ops
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.ops == 0
    }

    /// Whether no further operation fits.
    pub fn is_full(&self) -> bool {
        self.ops == MAX_BATCH
    }

    /// Adds a state.
    ///
    /// # Panics
    /// When the batch has [`MAX_BATCH`] states, or `state` has more than four numbers.
    pub fn state(&mut self, state: StateIn<'_>) -> StateIx {
        assert!(self.states < MAX_BATCH, "a full batch");
        assert!(state.fields.len() <= FIELDS_MAX, "a state of too many fields");
        let ix = self.states;
        self.states += 1;
        let at = state_at(ix);
        let (params, fields) = match state.params {
            Some(params) => (params.0, state.fields),
            None => (0, &[][..]),
        };
        self.put_u32(at + STATE_PARAMS, params);
        self.image[at + STATE_COUNT] = fields.len() as u8;
        self.image[at + STATE_CHANGED] = 0;
        for (i, &field) in fields.iter().enumerate() {
            self.put_f64(at + STATE_FIELDS + 8 * i, field);
        }
        StateIx(ix as u16)
    }

    /// Adds a check of `cost` tokens at `now_us` on the bucket `state`; with `peek` it decides and writes nothing.
    /// Operations on one state are decided in the order in which they were added.
    ///
    /// # Panics
    /// When the batch is full.
    pub fn check(&mut self, params: ParamsId, state: StateIx, now_us: i64, cost: u64, peek: bool) -> OpIx {
        let kind = if peek { Kind::Peek } else { Kind::Check };
        self.op(kind, params, state, now_us, cost as f64)
    }

    pub(crate) fn op(&mut self, kind: Kind, params: ParamsId, state: StateIx, now_us: i64, cost: f64) -> OpIx {
        assert!(self.ops < MAX_BATCH, "a full batch");
        debug_assert!((state.0 as usize) < self.states);
        let ix = self.ops;
        self.ops += 1;
        let at = op_at(ix);
        self.put_u32(at + OP_STATE, state_at(state.0 as usize) as u32);
        self.put_f64(at + OP_NOW, now_us as f64);
        self.put_f64(at + OP_COST, cost);
        self.put_u32(at + OP_PARAMS, params.0);
        self.image[at + OP_KIND] = kind as u8;
        self.image[at + OP_STATUS] = Status::Pending as u8;
        OpIx(ix as u16)
    }

    /// The `n`th operation added.
    pub fn op_ix(&self, n: usize) -> OpIx {
        debug_assert!(n < self.ops);
        OpIx(n as u16)
    }

    /// The `n`th state added.
    pub fn state_ix(&self, n: usize) -> StateIx {
        debug_assert!(n < self.states);
        StateIx(n as u16)
    }

    /// Whether the operation has an outcome.
    pub fn is_decided(&self, op: OpIx) -> bool {
        self.status(op.0 as usize) != Status::Pending
    }

    /// What the operation decided.
    ///
    /// # Errors
    /// The fault of the policy in this operation; its state is as it was before it.
    ///
    /// # Panics
    /// When the batch has not been run to its end.
    pub fn outcome(&self, op: OpIx) -> Result<Outcome, PolicyFault> {
        let at = op_at(op.0 as usize);
        match self.status(op.0 as usize) {
            Status::Done => Ok(Outcome {
                allowed: self.image[at + OP_ALLOWED] != 0,
                remaining: (self.get_f64(at + OP_REMAINING) as i64).max(0),
                retry_after_us: self.get_f64(at + OP_RETRY) as i64,
                full_at_us: self.get_f64(at + OP_FULL_AT) as i64,
            }),
            Status::Failed => Err(self.fault(op.0 as usize).clone()),
            Status::Pending => panic!("the batch has not been run to its end"),
        }
    }

    /// When the bucket of the operation is full again, as in its [`Outcome`]; `None` if it failed.
    #[inline]
    pub fn full_at_us(&self, op: OpIx) -> Option<i64> {
        let op = op.0 as usize;
        (self.status(op) == Status::Done).then(|| self.get_f64(op_at(op) + OP_FULL_AT) as i64)
    }

    /// The state after all operations on it.
    pub fn state_after(&self, state: StateIx) -> StateAfter {
        let state = state.0 as usize;
        StateAfter {
            params: self.state_params(state),
            changed: self.image[state_at(state) + STATE_CHANGED] != 0,
            count: self.state_count(state),
            fields: self.state_fields(state),
        }
    }

    /// How long the policies of the batch ran, in microseconds, as far as it was looked at: 0 when no policy ran long
    /// enough for the host to look at the clock.
    pub fn time_us(&self) -> u64 {
        self.time_us
    }

    // What the host works with.

    pub(crate) fn image(&self) -> &[u8] {
        &self.image[..self.image_len()]
    }

    pub(crate) fn image_mut(&mut self) -> &mut [u8] {
        let len = self.image_len();
        &mut self.image[..len]
    }

    fn image_len(&self) -> usize {
        HEADER + self.ops.max(self.states) * RECORD
    }

    /// Sets the header for a run that begins with operation `first`.
    pub(crate) fn write_header(&mut self, first: usize) {
        self.put_u32(PROGRESS, first as u32);
        self.put_u32(STOP, 0);
        self.put_u32(COUNT, self.ops as u32);
    }

    pub(crate) fn progress(&self) -> usize {
        self.get_u32(PROGRESS) as usize
    }

    pub(crate) fn op_params(&self, op: usize) -> ParamsId {
        ParamsId(self.get_u32(op_at(op) + OP_PARAMS))
    }

    pub(crate) fn op_now_us(&self, op: usize) -> i64 {
        self.get_f64(op_at(op) + OP_NOW) as i64
    }

    pub(crate) fn op_state(&self, op: usize) -> usize {
        (self.get_u32(op_at(op) + OP_STATE) as usize - HEADER - STATE) / RECORD
    }

    pub(crate) fn set_op_slot(&mut self, op: usize, slot: u32) {
        self.put_u32(op_at(op) + OP_SLOT, slot);
    }

    /// Lets the operation run in the next call, or not.
    pub(crate) fn set_route(&mut self, op: usize, run: bool) {
        let at = op_at(op);
        self.image[at + OP_ROUTE] = if run { self.image[at + OP_KIND] } else { 0 };
    }

    /// Further arguments of a split or merge, where the results will be.
    pub(crate) fn set_extra(&mut self, op: usize, first: f64, second: f64) {
        self.put_f64(op_at(op) + OP_REMAINING, first);
        self.put_f64(op_at(op) + OP_RETRY, second);
    }

    pub(crate) fn status(&self, op: usize) -> Status {
        match self.image[op_at(op) + OP_STATUS] {
            0 => Status::Pending,
            1 => Status::Done,
            _ => Status::Failed,
        }
    }

    pub(crate) fn fail(&mut self, op: usize, fault: PolicyFault) {
        self.image[op_at(op) + OP_STATUS] = Status::Failed as u8;
        self.faults.push((op, fault));
    }

    fn fault(&self, op: usize) -> &PolicyFault {
        self.faults
            .iter()
            .find_map(|(failed, fault)| (*failed == op).then_some(fault))
            .expect("a failed operation has a fault: `fail` alone sets the status")
    }

    pub(crate) fn state_count(&self, state: usize) -> usize {
        (self.image[state_at(state) + STATE_COUNT] as usize).min(FIELDS_MAX)
    }

    /// The numbers of a state; those beyond its count are 0.
    pub(crate) fn state_fields(&self, state: usize) -> [f64; FIELDS_MAX] {
        let mut fields = [0.0; FIELDS_MAX];
        for (i, field) in fields.iter_mut().take(self.state_count(state)).enumerate() {
            *field = self.get_f64(state_at(state) + STATE_FIELDS + 8 * i);
        }
        fields
    }

    pub(crate) fn state_params(&self, state: usize) -> ParamsId {
        ParamsId(self.get_u32(state_at(state) + STATE_PARAMS))
    }

    /// Replaces a state without marking it as changed.
    pub(crate) fn set_state(&mut self, state: usize, params: ParamsId, fields: &[f64]) {
        let at = state_at(state);
        self.put_u32(at + STATE_PARAMS, params.0);
        self.image[at + STATE_COUNT] = fields.len() as u8;
        for (i, &field) in fields.iter().enumerate() {
            self.put_f64(at + STATE_FIELDS + 8 * i, field);
        }
    }

    pub(crate) fn set_state_slot(&mut self, state: usize, slot: u32) {
        self.put_u32(state_at(state) + STATE_SLOT, slot);
    }

    /// What the operation put out as remaining, a debt being negative; of [`Kind::MaxBytes`] the bytes.
    pub(crate) fn remaining(&self, op: OpIx) -> f64 {
        self.get_f64(op_at(op.0 as usize) + OP_REMAINING)
    }

    fn put_u32(&mut self, at: usize, value: u32) {
        self.image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put_f64(&mut self, at: usize, value: f64) {
        self.image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn get_u32(&self, at: usize) -> u32 {
        u32::from_le_bytes([
            self.image[at],
            self.image[at + 1],
            self.image[at + 2],
            self.image[at + 3],
        ])
    }

    fn get_f64(&self, at: usize) -> f64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.image[at..at + 8]);
        f64::from_le_bytes(bytes)
    }
}

/// A state after a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateAfter {
    /// The parameters to store with it; meaningful while there are fields.
    pub params: ParamsId,
    /// Whether an operation wrote it.
    pub changed: bool,
    count: usize,
    fields: [f64; FIELDS_MAX],
}

impl StateAfter {
    /// The numbers to store, trailing nils dropped; none when the bucket is as one that does not exist.
    pub fn fields(&self) -> &[f64] {
        &self.fields[..self.count]
    }
}

/// Offset of operation `op` in the image.
fn op_at(op: usize) -> usize {
    HEADER + op * RECORD
}

/// Offset of state `state` in the image.
pub(crate) fn state_at(state: usize) -> usize {
    HEADER + state * RECORD + STATE
}

/// Offset of the status of operation `op` in the image.
pub(crate) fn status_at(op: usize) -> usize {
    op_at(op) + OP_STATUS
}
