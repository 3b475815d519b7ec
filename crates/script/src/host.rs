//! The host: the policies of one shard, their two VMs, and the run of a batch.

use std::collections::HashMap;
use std::time::Duration;

use crate::batch::{Batch, FIELDS_MAX, MAX_BATCH, Status};
use crate::error::{Fault, HostError, PolicyError, PolicyFault, TooManyParams};
use crate::info::{Fields, PolicyId, PolicyInfo};
use crate::params::{Interner, NOT_RESIDENT, Params, ParamsId};
use crate::residents::RESIDENT_MAX;
use crate::single::{State, Stored};
use crate::source::{PolicySource, is_builtin};
use crate::vm::{RunBudget, Vm};

/// The bounds of a [`PolicyHost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyLimits {
    /// Time that one operation may take in a policy that is not built in, and that a batch of them may take before
    /// [`PolicyHost::run`] returns in between, in microseconds.
    pub budget_us: u64,
    /// Memory that one run may add in a policy that is not built in, in bytes. It also bounds what a single step that
    /// cannot be interrupted may take (joining strings).
    pub memory_bytes: usize,
    /// Distinct (policy, limit, window, burst) in use at one time.
    pub max_params: usize,
    /// Policies loaded, versions that were replaced included.
    pub policies_max: usize,
    /// Largest state of a buffer policy, in bytes.
    pub state_bytes_max: usize,
}

impl Default for PolicyLimits {
    fn default() -> Self {
        Self {
            budget_us: 1_000,
            memory_bytes: 1 << 20,
            max_params: 1_000_000,
            policies_max: 256,
            state_bytes_max: 128 << 10,
        }
    }
}

/// How [`PolicyHost::run`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Every operation has an outcome.
    Done,
    /// The batch has used its budget; call `run` with it again, after having served others.
    More,
}

/// What [`PolicyHost::replace`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// A policy of a new name.
    Added(PolicyId),
    /// The same version and fields: the policy keeps its id, and stored states are read by the new file.
    Updated(PolicyId),
    /// Another version or other fields: the name has a new id. A state stored under the old one is taken over at its
    /// next check as a new state charged with what the old file says was used.
    Superseded {
        /// The id so far; still valid for stored states.
        old: PolicyId,
        /// The id of the name from now on.
        new: PolicyId,
    },
}

struct Policy {
    info: PolicyInfo,
    /// Kept to fill a new VM after the old one was lost to a policy that holds on to memory.
    source: PolicySource,
    vm: usize,
}

/// Where parameters are resident.
#[derive(Clone, Copy)]
struct Placed {
    params: ParamsId,
    slot: u32,
    vm: usize,
}

/// Index in `vms` of the one for files built into the binary, and the one for all others.
const TRUSTED: usize = 0;
const GUARDED: usize = 1;

/// The policies of one shard. Belongs to one thread.
pub struct PolicyHost {
    pub(crate) vms: [Vm; 2],
    policies: Vec<Policy>,
    names: HashMap<Vec<u8>, PolicyId>,
    pub(crate) interner: Interner,
    pub(crate) limits: PolicyLimits,
    /// Whether a policy was ever replaced by one that does not read its states.
    superseded: bool,
    /// For single operations.
    pub(crate) solo: Batch,
    pub(crate) fields: [f64; FIELDS_MAX],
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for PolicyHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyHost")
            .field("policies", &self.names.len())
            .field("params", &self.interner.len())
            .finish_non_exhaustive()
    }
}

impl PolicyHost {
    /// A host of these policies.
    ///
    /// # Errors
    /// The first file that is no policy, or a bound.
    pub fn new(sources: &[PolicySource], limits: PolicyLimits) -> Result<Self, PolicyError> {
        let budget = RunBudget {
            op: Duration::from_micros(limits.budget_us),
            memory_bytes: limits.memory_bytes,
        };
        let mut host = Self {
            vms: [Vm::new(false, budget)?, Vm::new(true, budget)?],
            policies: Vec::new(),
            names: HashMap::new(),
            interner: Interner::new(limits.max_params),
            limits,
            superseded: false,
            solo: Batch::new(),
            fields: [0.0; FIELDS_MAX],
            bytes: Vec::new(),
        };
        for source in sources {
            host.replace(source)?;
        }
        Ok(host)
    }

    /// Loads a file under its name, in place of one that has it already.
    ///
    /// # Errors
    /// What is wrong with the file, or a bound; the policies are as before then.
    pub fn replace(&mut self, source: &PolicySource) -> Result<Replaced, PolicyError> {
        check_name(&source.name)?;
        let trusted = is_builtin(&source.text);
        let vm = if trusted { TRUSTED } else { GUARDED };
        if vm == GUARDED && !self.vms[GUARDED].tidy() {
            self.renew_guarded()?;
        }
        let (info, functions) = self.vms[vm].compile(source, trusted)?;
        let old = self.names.get(source.name.as_bytes()).copied();
        let kept = old.filter(|&old| info.reads_states_of(self.info(old)));
        let id = match kept {
            Some(id) => id,
            None if self.policies.len() < self.limits.policies_max.min(u16::MAX.into()) => {
                PolicyId(self.policies.len() as u16)
            }
            None => {
                let max = self.limits.policies_max;
                return Err(HostError::TooManyPolicies { max }.into());
            }
        };
        self.vms[vm].install(id, &functions)?;
        let policy = Policy {
            info,
            source: source.clone(),
            vm,
        };
        match self.policies.get_mut(id.0 as usize) {
            Some(place) => {
                *place = policy;
                // Its parameters may be in the other VM, or have other bounds now.
                self.flush_all()?;
                for entry in self.interner.iter_mut() {
                    entry.state_bytes_max = None;
                }
            }
            None => self.policies.push(policy),
        }
        self.names.insert(source.name.clone().into_bytes(), id);
        self.superseded |= old.is_some() && kept.is_none();
        Ok(match (old, kept) {
            (None, _) => Replaced::Added(id),
            (Some(_), Some(_)) => Replaced::Updated(id),
            (Some(old), None) => Replaced::Superseded { old, new: id },
        })
    }

    /// The policy of this name.
    pub fn policy(&self, name: &[u8]) -> Option<PolicyId> {
        self.names.get(name).copied()
    }

    /// What the policy says about itself.
    pub fn info(&self, policy: PolicyId) -> &PolicyInfo {
        &self.policies[policy.0 as usize].info
    }

    /// The policies that have a name now, in no particular order.
    pub fn policies(&self) -> impl Iterator<Item = PolicyId> + '_ {
        self.names.values().copied()
    }

    /// The id of these parameters. It is valid while it is retained, and until the end of the next completed
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// [`TooManyParams`] when [`PolicyLimits::max_params`] others are retained or were interned since the last run.
    pub fn intern(&mut self, policy: PolicyId, params: Params) -> Result<ParamsId, TooManyParams> {
        self.interner.intern(policy, params)
    }

    /// The policy and parameters of an id.
    pub fn params(&self, id: ParamsId) -> (PolicyId, Params) {
        let entry = self.interner.get(id);
        (entry.policy, entry.params)
    }

    /// Counts a stored bucket, or another holder, that refers to the id.
    pub fn retain(&mut self, id: ParamsId) {
        self.interner.retain(id);
    }

    /// Takes back one [`retain`](Self::retain).
    pub fn release(&mut self, id: ParamsId) {
        self.interner.release(id);
    }

    /// Parameters interned now, those kept as a cache included.
    pub fn params_len(&self) -> usize {
        self.interner.len()
    }

    /// Gives memory back of parameters that nothing refers to, but for those kept as a cache: `most` at most. Whether there is more to do.
    pub fn trim_params(&mut self, most: usize) -> bool {
        self.interner.trim(most)
    }

    /// Memory of interned parameters, in bytes.
    pub fn params_bytes(&self) -> usize {
        self.interner.bytes()
    }

    /// What those parameters take that are retained, about, in bytes.
    pub fn retained_bytes(&self) -> usize {
        self.interner.in_use() * Interner::BYTES_EACH
    }

    /// Whether states stored under the one can be checked under the other: both are of the policy of one name, in
    /// whichever version.
    pub fn same_policy(&self, a: ParamsId, b: ParamsId) -> bool {
        if a == b {
            return true;
        }
        let (a, b) = (self.interner.get(a).policy, self.interner.get(b).policy);
        a == b || self.info(a).name == self.info(b).name
    }

    /// Says that nothing refers to parameters which are not retained. A host whose batches do not run, because all is decided
    /// one by one, must be told so now and then; else it runs out of parameters.
    pub fn end_epoch(&mut self) {
        self.interner.next_epoch();
    }

    /// Runs the operations of the batch that have no outcome yet. An operation whose policy fails has that fault as its
    /// outcome and leaves its state as it was; the others go on.
    ///
    /// Returns [`Progress::More`] between two operations once policies that are not built in have used
    /// [`PolicyLimits::budget_us`] in this call.
    ///
    /// All policies of a batch must have number fields; those with a buffer go through
    /// [`check_one`](Self::check_one), and get [`Fault::StateSize`] here.
    pub fn run(&mut self, batch: &mut Batch) -> Progress {
        if self.superseded {
            self.take_over_states(batch);
        }
        let room = self.make_room(2 * batch.len());
        let mut pending = [0_usize; 2];
        let mut last = None;
        for op in 0..batch.len() {
            let is_pending = batch.status(op) == Status::Pending;
            batch.set_route(op, is_pending);
            if is_pending {
                let prepared = match &room {
                    Ok(()) => self.prepare(batch, op, &mut last),
                    Err(error) => Err(self.fault(batch.op_params(op), Fault::Error(error.to_string()))),
                };
                match prepared {
                    Ok(vm) => pending[vm] += 1,
                    Err(fault) => {
                        batch.fail(op, fault);
                        batch.set_route(op, false);
                    }
                }
            }
        }
        for vm in [TRUSTED, GUARDED] {
            if pending[vm] > 0 && self.run_in(vm, batch, pending[1 - vm] > 0) == Progress::More {
                return Progress::More;
            }
        }
        self.interner.next_epoch();
        Progress::Done
    }

    /// Takes states of older versions of a policy over, each at the time of its first pending operation.
    fn take_over_states(&mut self, batch: &mut Batch) {
        for op in 0..batch.len() {
            let (params, state) = (batch.op_params(op), batch.op_state(op));
            let count = batch.state_count(state);
            let old = batch.state_params(state);
            if batch.status(op) != Status::Pending
                || count == 0
                || self.interner.get(old).policy == self.interner.get(params).policy
            {
                continue;
            }
            let fields = batch.state_fields(state);
            let stored = Stored {
                params: old,
                state: State::Numbers(&fields[..count]),
            };
            match self.take_over(params, stored, batch.op_now_us(op)) {
                Ok(State::Numbers(fields)) => batch.set_state(state, params, fields),
                // The new version has a buffer, which `prepare` refuses.
                Ok(State::Bytes(_)) => {}
                Err(fault) => batch.fail(op, fault),
            }
        }
    }

    /// Runs the pending operations of one VM; `mixed` when the batch has some of the other, too.
    fn run_in(&mut self, vm: usize, batch: &mut Batch, mixed: bool) -> Progress {
        if mixed {
            for op in 0..batch.len() {
                let run = batch.status(op) == Status::Pending && self.vm_of(batch.op_params(op)) == vm;
                batch.set_route(op, run);
            }
        }
        let Self {
            vms,
            policies,
            interner,
            ..
        } = self;
        let done = vms[vm].run(batch, |batch, op, fault| {
            let policy = interner.get(batch.op_params(op)).policy;
            let policy = policies[policy.0 as usize].info.name.clone();
            batch.fail(op, PolicyFault { policy, fault });
        });
        if done { Progress::Done } else { Progress::More }
    }

    /// Makes the parameters of an operation and its state resident; returns its VM. `last` is for the next call of this run, since
    /// most operations of a batch have the same parameters.
    fn prepare(&mut self, batch: &mut Batch, op: usize, last: &mut Option<Placed>) -> Result<usize, PolicyFault> {
        let params = batch.op_params(op);
        let placed = match *last {
            Some(placed) if placed.params == params => placed,
            _ => {
                let slot = self.resident(params)?;
                let policy = self.interner.get(params).policy;
                let Policy { info, vm, .. } = &self.policies[policy.0 as usize];
                let vm = *vm;
                if info.fields == Fields::Buffer {
                    return Err(self.fault(params, Fault::StateSize { bytes: 0, max: 0 }));
                }
                *last.insert(Placed { params, slot, vm })
            }
        };
        batch.set_op_slot(op, placed.slot);
        let state = batch.op_state(op);
        if batch.state_count(state) > 0 {
            let stored = batch.state_params(state);
            let slot = if stored == params {
                placed.slot
            } else {
                self.resident(stored)?
            };
            batch.set_state_slot(state, slot);
        }
        Ok(placed.vm)
    }

    /// Makes sure that `more` parameters can be made resident from now on without dropping one of them.
    pub(crate) fn make_room(&mut self, more: usize) -> Result<(), HostError> {
        debug_assert!(more <= 2 * MAX_BATCH);
        const { assert!(2 * MAX_BATCH < RESIDENT_MAX) };
        if !self.vms[GUARDED].tidy() {
            self.renew_guarded()?;
        }
        for vm in &mut self.vms {
            vm.residents.begin_round();
        }
        Ok(())
    }

    /// The slot of these parameters in their policy's VM.
    pub(crate) fn resident(&mut self, id: ParamsId) -> Result<u32, PolicyFault> {
        let entry = self.interner.get(id);
        let (policy, params, slot) = (entry.policy, entry.params, entry.slot);
        let vm = self.policies[policy.0 as usize].vm;
        if slot != NOT_RESIDENT {
            self.vms[vm].residents.touch(slot);
            return Ok(slot);
        }
        let (slot, before) = self.vms[vm].residents.claim(id);
        if let Some(before) = before {
            self.drop_resident(before, vm, slot);
        }
        match self.vms[vm].place(slot, policy, &params) {
            Ok(()) => {
                self.interner.get_mut(id).slot = slot;
                Ok(slot)
            }
            Err(error) => Err(self.fault(id, Fault::Error(error.to_string()))),
        }
    }

    /// Notes that parameters have lost their slot, unless the id means others by now.
    fn drop_resident(&mut self, id: ParamsId, vm: usize, slot: u32) {
        let policies = &self.policies;
        if let Some(entry) = self.interner.find_mut(id)
            && entry.slot == slot
            && policies[entry.policy.0 as usize].vm == vm
        {
            entry.slot = NOT_RESIDENT;
        }
    }

    fn flush_all(&mut self) -> Result<(), HostError> {
        for vm in &mut self.vms {
            for id in vm.flush()? {
                if let Some(entry) = self.interner.find_mut(id) {
                    entry.slot = NOT_RESIDENT;
                }
            }
        }
        Ok(())
    }

    /// Fills a new guarded VM, since policies of the old one hold on to so much memory that others could not run.
    fn renew_guarded(&mut self) -> Result<(), HostError> {
        let budget = RunBudget {
            op: Duration::from_micros(self.limits.budget_us),
            memory_bytes: self.limits.memory_bytes,
        };
        let mut vm = Vm::new(true, budget)?;
        for (i, policy) in self.policies.iter().enumerate() {
            if policy.vm == GUARDED {
                let (_, functions) = vm
                    .compile(&policy.source, false)
                    .map_err(|error| HostError::Luau(error.to_string()))?;
                vm.install(PolicyId(i as u16), &functions)?;
            }
        }
        let mut old = std::mem::replace(&mut self.vms[GUARDED], vm);
        for id in old.residents.clear() {
            if let Some(entry) = self.interner.find_mut(id) {
                entry.slot = NOT_RESIDENT;
            }
        }
        Ok(())
    }

    pub(crate) fn vm_of(&self, params: ParamsId) -> usize {
        self.policies[self.interner.get(params).policy.0 as usize].vm
    }

    /// A fault of the policy of these parameters.
    pub(crate) fn fault(&self, params: ParamsId, fault: Fault) -> PolicyFault {
        PolicyFault {
            policy: self.info(self.interner.get(params).policy).name.clone(),
            fault,
        }
    }

    /// Runs the one operation in `solo`.
    pub(crate) fn run_solo(&mut self) -> Result<(), PolicyFault> {
        let vm = self.vm_of(self.solo.op_params(0));
        self.solo.set_route(0, true);
        let Self {
            vms,
            policies,
            interner,
            solo,
            ..
        } = self;
        let mut failed = None;
        // A run with one operation ends with its result or its fault: it is the first, and there is none to pause before.
        let done = vms[vm].run(solo, |batch, op, fault| {
            let policy = interner.get(batch.op_params(op)).policy;
            let policy = policies[policy.0 as usize].info.name.clone();
            failed = Some(PolicyFault { policy, fault });
        });
        debug_assert!(done);
        failed.map_or(Ok(()), Err)
    }
}

/// Longest name of a policy, in bytes.
const NAME_BYTES_MAX: usize = 64;

fn check_name(name: &str) -> Result<(), PolicyError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if fits {
        return Ok(());
    }
    Err(PolicyError::Invalid {
        file: format!("{}.lua", name.escape_debug()),
        message: format!("a policy's name has 1 to {NAME_BYTES_MAX} letters, digits, `_` or `-`"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RECURSES: &str = "
        local function deeper(n)
            if n == 0 then error('deep') end
            return 1 + deeper(n - 1)
        end
        return { version = 1, fields = { 'level' }, burst = 'limit',
            check = function(limit, now, cost) if cost > 0 then deeper(cost) end return true, 1, 0, 0 end,
            full_at = function() return 0 end }";

    /// The stack that a deep recursion leaves is given back before the VM is taken to be full: filling a new one takes tens
    /// of milliseconds.
    #[test]
    fn deep_recursion_does_not_cost_the_vm() {
        let source = PolicySource {
            name: "recurses".to_owned(),
            text: RECURSES.to_owned(),
        };
        let limits = PolicyLimits {
            budget_us: 10_000_000,
            ..PolicyLimits::default()
        };
        let mut host = PolicyHost::new(&[source], limits).unwrap();
        let policy = host.policy(b"recurses").unwrap();
        let mut params = (1..=5).map(|limit| {
            let params = Params {
                limit,
                window_us: 1_000_000,
                burst: limit,
            };
            host.intern(policy, params).unwrap()
        });
        let ids: [ParamsId; 5] = std::array::from_fn(|_| params.next().unwrap());
        for id in ids {
            host.check_one(id, None, 0, 0, false).unwrap();
        }
        assert_eq!(host.vms[GUARDED].residents.len(), 5);
        for depth in (500..19_000).step_by(250) {
            host.check_one(ids[0], None, 0, depth, false).unwrap_err();
            host.check_one(ids[1], None, 0, 0, false).unwrap();
            assert_eq!(
                host.vms[GUARDED].residents.len(),
                5,
                "a new VM after a depth of {depth}"
            );
        }
    }
}
