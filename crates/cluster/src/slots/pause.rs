//! What a node holds after its own loop stood still for longer than it takes to be declared dead: nothing for certain, until a peer
//! has confirmed that it is still a member, and has said who has taken what.

use super::defect::Defect;
use super::message::Message;
use super::peers::PeerIx;
use super::{Effect, Event, Machine, Step};

/// How often a paused node asks again, in microseconds.
const ASK_AGAIN_US: u64 = 100_000;

#[derive(Debug, Default)]
pub(super) struct Pause {
    ticked_us: u64,
    replicas_us: u64,
    /// Since when it has been uncertain.
    since_us: Option<u64>,
    asked_us: u64,
    number: u64,
    /// A peer was paused as well.
    shared: bool,
    /// There were no peers before the pause.
    alone: bool,
}

impl Pause {
    pub fn certain(&self) -> bool {
        self.since_us.is_none()
    }
}

impl Machine {
    /// Whether this node is sure of what it holds.
    pub fn certain(&self, now_us: u64) -> bool {
        self.pause.certain() && (!self.stood_still(now_us) || self.has(Defect::PauseNotNoticed))
    }

    fn stood_still(&self, now_us: u64) -> bool {
        self.pause.ticked_us != 0 && now_us.saturating_sub(self.pause.ticked_us) > self.settings.death_us
    }

    pub(super) fn notice_pause(&mut self, step: &mut Step<'_>) {
        let now_us = step.now_us;
        let pause_us = now_us.saturating_sub(self.pause.ticked_us);
        let paused = self.stood_still(now_us);
        self.pause.ticked_us = now_us;
        if paused && !self.has(Defect::PauseNotNoticed) {
            self.pause.since_us = Some(now_us);
            (self.pause.asked_us, self.pause.shared, self.pause.alone) = (0, false, !self.view.others);
            self.pause.number += 1;
            step.effects.push(Effect::Event(Event::Paused { pause_us }));
        }
        let Some(since_us) = self.pause.since_us else { return };
        // Right after a pause all others look dead: it takes the time of a death to tell that they are.
        let alone = self.pause.alone || now_us > since_us + self.settings.death_us;
        let all_were = self.pause.shared && now_us > since_us + 2 * self.settings.death_us;
        if (alone && !self.view.others) || all_were {
            self.be_certain(step);
        } else if now_us >= self.pause.asked_us + ASK_AGAIN_US {
            self.pause.asked_us = now_us;
            let links: Vec<(PeerIx, u16)> = self.peers.links.keys().copied().collect();
            for to in links {
                self.tell_holdings(to.0, to.1, step);
                self.send(
                    to,
                    Message::Confirm {
                        number: self.pause.number,
                    },
                    step,
                );
            }
        }
    }

    /// The peer's holdings came before this, and were corrected.
    pub(super) fn on_confirm(&mut self, from: (PeerIx, u16), number: u64, step: &mut Step<'_>) {
        let member = self.pause.certain().then(|| self.peers.get(from.0).member);
        self.send(from, Message::Confirmed { number, member }, step);
    }

    pub(super) fn on_confirmed(&mut self, number: u64, member: Option<bool>, step: &mut Step<'_>) {
        if self.pause.since_us.is_none() || number != self.pause.number {
            return;
        }
        match member {
            Some(true) => self.be_certain(step),
            Some(false) => {}
            None => self.pause.shared = true,
        }
    }

    fn be_certain(&mut self, step: &mut Step<'_>) {
        self.pause.since_us = None;
        // What local shares have admitted meanwhile.
        let decides = |slot: &u16| self.slot(*slot).held().is_some() && self.slot(*slot).offered().is_none();
        let slots: Vec<u16> = self.debts.journal.slots().filter(decides).collect();
        for slot in slots {
            self.settle_debts(slot, step);
        }
        step.effects.push(Effect::Event(Event::Confirmed));
    }

    /// If it is time to look at all replicas: the time, or the end of the last pause if that was since.
    pub(super) fn replicas_due(&mut self, now_us: u64) -> Option<u64> {
        if now_us < self.pause.replicas_us + self.settings.replica_idle_us / 4 {
            return None;
        }
        self.pause.replicas_us = now_us;
        Some(now_us)
    }
}
