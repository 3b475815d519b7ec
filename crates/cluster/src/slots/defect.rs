//! Mistakes that the simulator can plant in a machine, to see that it finds them. Only tests can: everywhere else a machine has none.

use super::Machine;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A handover is taken whatever its epoch, and whatever the follower has.
    StaleHandoverWins,
    /// The last changes are not sent before a slot is offered.
    RemainderLost,
    /// Of two states the fuller one is kept: debits are acknowledged and not taken.
    MergeByMaximum,
    /// A holder that loses a slot forgets what it has admitted.
    JournalDropped,
    /// A holder decides until its offer is answered.
    DecidesWhileOffered,
    /// The reading of a slot's clock is not taken from the one before.
    ClockNotCarried,
    /// Some changes are acknowledged and then not applied.
    AcknowledgedBeforeApplied,
    /// Changes are applied in the order in which they come.
    ChangesReordered,
    /// A takeover does not raise the epoch.
    TakeoverKeepsEpoch,
    /// Batches of debits are told apart by their numbers alone, not by who has sent them.
    DebitsOfOthersTakenForSeen,
    /// A pause is not noticed.
    PauseNotNoticed,
    /// A follower counts as in step before the copy has ended.
    CopyEndNotAwaited,
    /// What a stand-in has admitted is not told to the holder.
    StandInNotJournalled,
    /// What local shares have admitted is not told to the holder.
    LocalNotJournalled,
    /// A node that comes back is taken for the one that it was before.
    RestartNotNoticed,
    /// A follower that has not handed the slot over resumes all the same.
    ResumedWithoutState,
}

impl Machine {
    #[cfg(test)]
    pub(super) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    #[cfg(not(test))]
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "in tests it has a defect")]
    pub(super) const fn has(&self, _: Defect) -> bool {
        false
    }
}
