//! Single operations on one bucket, for policies with number fields and with a buffer alike.

use crate::batch::{Kind, OpIx, Outcome, StateIn, StateIx};
use crate::error::{Fault, PolicyFault};
use crate::host::PolicyHost;
use crate::info::Fields;
use crate::params::ParamsId;

/// A bucket's state in the form of its policy. An empty one is that of a bucket that does not exist.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State<'a> {
    /// The numbers, without trailing nils.
    Numbers(&'a [f64]),
    /// The bytes of a buffer policy.
    Bytes(&'a [u8]),
}

impl State<'_> {
    /// Whether it is the state of a bucket that does not exist.
    pub fn is_empty(&self) -> bool {
        match self {
            State::Numbers(fields) => fields.is_empty(),
            State::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

/// A state and the parameters under which it was stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stored<'a> {
    /// The parameters.
    pub params: ParamsId,
    /// The state.
    pub state: State<'a>,
}

/// Arguments of an operation beside the state.
#[derive(Clone, Copy, Default)]
struct Args {
    now_us: i64,
    /// Cost, amount, or index of a sub-bucket.
    cost: f64,
    /// Of a split: the number of parts, and the parameters of this one.
    part: Option<(u32, ParamsId)>,
}

/// The first operation and states of a batch with one operation.
const OP: OpIx = OpIx(0);
const FIRST: StateIx = StateIx(0);
const SECOND: StateIx = StateIx(1);

/// All functions take the state of a bucket as it is stored (`None`: the bucket does not exist) and, where they return
/// one, lend the new state until the next call. A state stored under other parameters of the same policy is first taken
/// over to `params`, by the policy's `resize` or else as a new state charged with what was used. All fail with the
/// fault of the policy; the state given is still the right one then.
impl PolicyHost {
    /// A check of `cost` tokens, or with `peek` the decision alone; the state returned with a peek is not for storing.
    pub fn check_one(
        &mut self,
        params: ParamsId,
        stored: Option<Stored<'_>>,
        now_us: i64,
        cost: u64,
        peek: bool,
    ) -> Result<(Outcome, State<'_>), PolicyFault> {
        let kind = if peek { Kind::Peek } else { Kind::Check };
        let args = Args {
            now_us,
            cost: cost as f64,
            ..Args::default()
        };
        self.apply(kind, params, stored, None, args)?;
        let outcome = self.solo.outcome(OP)?;
        Ok((outcome, self.state_out(params)))
    }

    /// When the bucket is full again if left alone, in microseconds; the minimum of `i64` for an empty state. The time
    /// may have passed.
    pub fn full_at(&mut self, stored: Stored<'_>) -> Result<i64, PolicyFault> {
        if stored.state.is_empty() {
            return Ok(i64::MIN);
        }
        let args = Args::default();
        self.apply(Kind::FullAt, stored.params, Some(stored), None, args)?;
        Ok(self.solo.outcome(OP)?.full_at_us)
    }

    /// Gives `amount` tokens back, up to the capacity.
    pub fn give(
        &mut self,
        params: ParamsId,
        stored: Option<Stored<'_>>,
        now_us: i64,
        amount: u64,
    ) -> Result<State<'_>, PolicyFault> {
        self.needs(params, "give", |info| info.has_give)?;
        let args = Args {
            now_us,
            cost: amount as f64,
            ..Args::default()
        };
        if stored.is_none_or(|stored| stored.state.is_empty()) {
            // A bucket that does not exist is full.
            return Ok(State::Numbers(&[]));
        }
        self.apply(Kind::Give, params, stored, None, args)?;
        Ok(self.state_out(params))
    }

    /// Charges `amount` tokens whether they are there or not: into debt, down to minus the capacity.
    pub fn take(
        &mut self,
        params: ParamsId,
        stored: Option<Stored<'_>>,
        now_us: i64,
        amount: u64,
    ) -> Result<State<'_>, PolicyFault> {
        self.needs(params, "take", |info| info.has_take)?;
        let args = Args {
            now_us,
            cost: amount as f64,
            ..Args::default()
        };
        self.apply(Kind::Take, params, stored, None, args)?;
        Ok(self.state_out(params))
    }

    /// Takes a state over to other parameters, or another version, of its policy.
    pub fn resize(&mut self, params: ParamsId, stored: Stored<'_>, now_us: i64) -> Result<State<'_>, PolicyFault> {
        let args = Args {
            now_us,
            ..Args::default()
        };
        self.apply(Kind::Resize, params, Some(stored), None, args)?;
        Ok(self.state_out(params))
    }

    /// The state of sub-bucket `i` (from 0) of `k` of the bucket, under the parameters `part`.
    pub fn split(
        &mut self,
        params: ParamsId,
        part: ParamsId,
        stored: Option<Stored<'_>>,
        now_us: i64,
        i: u32,
        k: u32,
    ) -> Result<State<'_>, PolicyFault> {
        self.needs(params, "split", |info| info.has_split)?;
        let args = Args {
            now_us,
            cost: i.into(),
            part: Some((k, part)),
        };
        self.apply(Kind::Split, params, stored, None, args)?;
        Ok(self.state_out(params))
    }

    /// The state of the bucket that the sub-buckets `a` and `b`, each under its own parameters, become.
    pub fn merge(
        &mut self,
        params: ParamsId,
        a: Stored<'_>,
        b: Stored<'_>,
        now_us: i64,
    ) -> Result<State<'_>, PolicyFault> {
        self.needs(params, "merge", |info| info.has_merge)?;
        let args = Args {
            now_us,
            ..Args::default()
        };
        self.apply(Kind::Merge, params, Some(a), Some(b), args)?;
        Ok(self.state_out(params))
    }

    /// Whether the policy can decide under these parameters: a check of cost 0 on a new bucket succeeds, and a buffer's
    /// largest state is within [`crate::PolicyLimits::state_bytes_max`]. For rules, before they are accepted.
    pub fn probe(&mut self, params: ParamsId, now_us: i64) -> Result<(), PolicyFault> {
        self.check_one(params, None, now_us, 0, true).map(|_| ())
    }

    /// Takes a state of an older version of the policy over: a new state charged with what the old file says was used.
    pub(crate) fn take_over(
        &mut self,
        params: ParamsId,
        stored: Stored<'_>,
        now_us: i64,
    ) -> Result<State<'_>, PolicyFault> {
        let args = Args {
            now_us,
            ..Args::default()
        };
        self.apply(Kind::Peek, stored.params, Some(stored), None, args)?;
        let remaining = self.solo.remaining(OP);
        let old_burst = self.interner.get(stored.params).params.burst;
        let burst = self.interner.get(params).params.burst;
        let used = (old_burst as f64 - remaining).min(burst as f64);
        if used <= 0.0 {
            return Ok(match self.info(self.params(params).0).fields {
                Fields::Numbers(_) => State::Numbers(&[]),
                Fields::Buffer => State::Bytes(&[]),
            });
        }
        self.check_one(params, None, now_us, used as u64, false)
            .map(|(_, state)| state)
    }

    /// Runs one operation on up to two states; its results are in `solo` and the scratch buffer of its VM.
    fn apply(
        &mut self,
        kind: Kind,
        params: ParamsId,
        stored: Option<Stored<'_>>,
        second: Option<Stored<'_>>,
        args: Args,
    ) -> Result<(), PolicyFault> {
        if kind != Kind::Merge
            && let Some(stored) = stored
            && self.interner.get(stored.params).policy != self.interner.get(params).policy
            && !stored.state.is_empty()
        {
            let (fields, bytes);
            let state = match self.take_over(params, stored, args.now_us)? {
                State::Numbers(numbers) => {
                    fields = numbers.to_vec();
                    State::Numbers(&fields)
                }
                State::Bytes(content) => {
                    bytes = content.to_vec();
                    State::Bytes(&bytes)
                }
            };
            let taken_over = Stored { params, state };
            return self.apply(kind, params, Some(taken_over), None, args);
        }
        // Nothing below drops the parameters that become resident here.
        self.room()?;
        let buffer = self.info(self.interner.get(params).policy).fields == Fields::Buffer;
        if buffer {
            self.fill_scratch(params, stored, second)?;
        }
        let slot = self.resident(params)?;
        self.solo.clear();
        for stored in [stored, second].into_iter().flatten() {
            self.push_state(stored, buffer)?;
        }
        if stored.is_none() {
            self.solo.state(StateIn::NEW);
        }
        let op = self.solo.op(kind, params, FIRST, args.now_us, args.cost);
        self.solo.set_op_slot(op.0 as usize, slot);
        if let Some((k, part)) = args.part {
            let part = self.resident(part)?;
            self.solo.set_extra(op.0 as usize, k.into(), part.into());
        }
        if kind == Kind::Merge {
            let other = crate::batch::state_at(SECOND.0 as usize);
            self.solo.set_extra(op.0 as usize, other as f64, 0.0);
        }
        self.run_solo()?;
        if buffer {
            let len = self.solo.state_after(FIRST).fields().first().copied();
            let vm = self.vm_of(params);
            self.vms[vm].read_scratch(len.unwrap_or(0.0) as usize, &mut self.bytes);
        }
        Ok(())
    }

    /// Adds a state to `solo`, its parameters resident.
    fn push_state(&mut self, stored: Stored<'_>, buffer: bool) -> Result<(), PolicyFault> {
        let len;
        let fields = match (stored.state, buffer) {
            (State::Numbers(fields), false) => fields,
            (State::Bytes([]), true) => &[],
            (State::Bytes(bytes), true) => {
                len = [bytes.len() as f64];
                &len
            }
            (state, _) if state.is_empty() => &[],
            (State::Numbers(fields), true) => {
                let bytes = fields.len() * 8;
                return Err(self.fault(stored.params, Fault::StateSize { bytes, max: 0 }));
            }
            (State::Bytes(bytes), false) => {
                let bytes = bytes.len();
                return Err(self.fault(stored.params, Fault::StateSize { bytes, max: 0 }));
            }
        };
        let slot = self.resident(stored.params)?;
        let state = self.solo.state(StateIn {
            params: Some(stored.params),
            fields,
        });
        self.solo.set_state_slot(state.0 as usize, slot);
        Ok(())
    }

    /// Puts the states of a buffer policy into the scratch buffers, which are large enough for any state under the
    /// parameters involved.
    fn fill_scratch(
        &mut self,
        params: ParamsId,
        stored: Option<Stored<'_>>,
        second: Option<Stored<'_>>,
    ) -> Result<(), PolicyFault> {
        let mut bytes_max = self.ask_state_bytes_max(params)?;
        let mut contents = [&[][..], &[][..]];
        for (content, stored) in contents.iter_mut().zip([stored, second]) {
            if let Some(Stored { params, state }) = stored {
                let max = self.ask_state_bytes_max(params)?;
                bytes_max = bytes_max.max(max);
                if let State::Bytes(bytes) = state {
                    if bytes.len() > max {
                        let bytes = bytes.len();
                        return Err(self.fault(params, Fault::StateSize { bytes, max }));
                    }
                    *content = bytes;
                }
            }
        }
        let vm = self.vm_of(params);
        self.vms[vm]
            .reserve_scratch(bytes_max)
            .and_then(|()| self.vms[vm].write_scratch(contents[0], contents[1]))
            .map_err(|error| self.fault(params, Fault::Error(error.to_string())))
    }

    /// The largest state under these parameters, in bytes, as the policy says; asked once.
    pub fn state_bytes_max(&mut self, params: ParamsId) -> Result<usize, PolicyFault> {
        self.room()?;
        self.ask_state_bytes_max(params)
    }

    fn ask_state_bytes_max(&mut self, params: ParamsId) -> Result<usize, PolicyFault> {
        if let Some(bytes) = self.interner.get(params).state_bytes_max {
            return Ok(bytes as usize);
        }
        if let Fields::Numbers(names) = &self.info(self.interner.get(params).policy).fields {
            return Ok(names.len() * size_of::<f64>());
        }
        let slot = self.resident(params)?;
        self.solo.clear();
        let state = self.solo.state(StateIn::NEW);
        let op = self.solo.op(Kind::MaxBytes, params, state, 0, 0.0);
        self.solo.set_op_slot(op.0 as usize, slot);
        self.run_solo()?;
        let bytes = self.solo.remaining(OP);
        let max = self.limits.state_bytes_max;
        if bytes > max as f64 {
            let bytes = bytes as usize;
            return Err(self.fault(params, Fault::LimitTooLarge { bytes, max }));
        }
        self.interner.get_mut(params).state_bytes_max = Some(bytes as u32);
        Ok(bytes as usize)
    }

    /// Room for the parameters of one operation: its own, a part's, those of two states.
    fn room(&mut self) -> Result<(), PolicyFault> {
        const PARAMS_MAX: usize = 4;
        self.make_room(PARAMS_MAX).map_err(|error| PolicyFault {
            policy: String::new(),
            fault: Fault::Error(error.to_string()),
        })
    }

    /// The first state of `solo`, copied to where it outlives the next batch.
    fn state_out(&mut self, params: ParamsId) -> State<'_> {
        if self.info(self.interner.get(params).policy).fields == Fields::Buffer {
            return State::Bytes(&self.bytes);
        }
        let after = self.solo.state_after(FIRST);
        let count = after.fields().len();
        self.fields[..count].copy_from_slice(after.fields());
        State::Numbers(&self.fields[..count])
    }

    fn needs(
        &self,
        params: ParamsId,
        function: &'static str,
        has: impl Fn(&crate::info::PolicyInfo) -> bool,
    ) -> Result<(), PolicyFault> {
        if has(self.info(self.interner.get(params).policy)) {
            return Ok(());
        }
        Err(self.fault(params, Fault::Lacks(function)))
    }
}
