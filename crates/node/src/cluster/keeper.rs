//! The worker's part of its slot machine: tells it what happens, and does what it wants done.

use super::Route;
use super::links::Links;
use super::store::ShardStore;
use crate::limits::Bound;
use crate::node::owner;
use crate::peers::{PeerError, PeerEvent, PeerHandler, PeerId, ReplyHandle};
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tollgate_cluster::journal::Admission;
use tollgate_cluster::slots::{self, Decider, Effect, Event, Machine, NOBODY, Step};
use tollgate_cluster::wire::{Kind, Pong, SlotMessages};
use tollgate_cluster::{Incarnation, MemberState, View};
use tollgate_store::SLOTS;

/// How often the machine is told the time.
const TICK: Duration = Duration::from_millis(5);
/// How often the others are told what the slots come to.
const TELL_US: u64 = 100_000;
/// How often the shard's journals are told to the machine.
const JOURNALS_US: u64 = 25_000;
/// How long nothing may tell the machine the time before a command asks whether the node stood still.
const STILL_US: u64 = 500_000;

/// Messages of a peer that are taken together: the entries that these are about are read together first.
const AT_ONCE: usize = 16;

/// The slots of a worker, of so many.
fn slots_of(worker: u16, workers: u16) -> Range<u16> {
    crate::node::slots_of(usize::from(worker), usize::from(workers.max(1)))
}

impl Worker {
    /// Takes the slots if the node is the first of its cluster; others wait to be given some.
    pub fn begin_cluster(self: &Rc<Self>) {
        let Some(cluster) = &self.node.cluster else { return };
        for slot in slots_of(self.index as u16, self.node.workers() as u16) {
            self.shard.borrow_mut().set_slot_held(slot, false);
        }
        let view = Arc::clone(&cluster.view().borrow());
        self.take_view(view);
        if !cluster.has_seeds {
            self.step_slots(Machine::found);
        }
        self.tell_home();
    }

    /// Keeps the machine going for as long as the node runs.
    pub async fn run_cluster(self: Rc<Self>) {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return;
        };
        let mut views = cluster.view();
        let view = Arc::clone(&views.borrow_and_update());
        self.take_view(view);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut told_us, mut journals_us) = (0, 0);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    self.step_slots(Machine::tick);
                    let now_us = self.node.clock.now_us();
                    if now_us >= journals_us + JOURNALS_US {
                        journals_us = now_us;
                        self.tell_journals();
                    }
                    if now_us >= told_us + TELL_US {
                        told_us = now_us;
                        self.free_overdue();
                        self.end_watches_abroad();
                        self.choose_journals();
                        self.tell_home();
                    }
                }
                () = links.heard.wait() => self.hear_links(),
                changed = views.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let view = Arc::clone(&views.borrow_and_update());
                    self.take_view(view);
                }
            }
        }
    }

    /// If the node may have stood still, lets the machine notice it before anything is decided.
    #[inline]
    pub fn notice_pause(self: &Rc<Self>, now_us: u64) {
        if let Some(links) = &self.links
            && now_us > links.ticked_us.get() + STILL_US
        {
            self.step_slots(Machine::tick);
        }
    }

    /// Takes a step with the machine, and does what it wants done.
    pub(super) fn step_slots(self: &Rc<Self>, act: impl FnOnce(&mut Machine, &mut Step<'_>)) {
        let Some(links) = &self.links else { return };
        // A slot that goes takes nothing with it that is not decided.
        self.decide_checks();
        let now_us = self.node.clock.now_us();
        links.ticked_us.set(now_us);
        let mut effects = links.effects.take();
        {
            let mut shard = self.shard.borrow_mut();
            let mut machine = links.machine.borrow_mut();
            let mut store = ShardStore::new(&mut shard);
            let mut step = Step {
                now_us,
                store: &mut store,
                effects: &mut effects,
            };
            act(&mut machine, &mut step);
            // Slots that were lost to another, and not handed over, take no journal along: what it had is owed.
            for (slot, owed) in store.owed {
                let (bucket, parameters) = (owed.bucket.into(), owed.parameters.into());
                machine.admitted(slot, Admission::Held, bucket, parameters, owed.tokens);
            }
        }
        for effect in effects.drain(..) {
            self.do_effect(links, effect);
        }
        links.outbox.send(&links.peers);
        // Once for all slots of the step: there may be thousands, and many who wait.
        if links.has_opened.take()
            && let Some(cluster) = &self.node.cluster
        {
            self.wake_waiting();
            cluster.opened.notify_waiters();
        }
        // An effect may have led to another step, which has left its own list.
        links.effects.replace(effects);
    }

    fn do_effect(self: &Rc<Self>, links: &Links, effect: Effect) {
        match effect {
            Effect::Send { peer, worker, message } => links.outbox.push(&links.peers, peer, worker, &message),
            Effect::Publish { slot, .. } | Effect::Release { slot } => self.route_slot(links, slot),
            Effect::Freeze { slot, number } => {
                if let Some(cluster) = &self.node.cluster {
                    cluster.routes.set(slot, Route::Closing);
                }
                tokio::task::spawn_local(Rc::clone(self).close_slot(slot, number));
            }
            Effect::Event(event) => self.note_event(links, &event),
        }
    }

    /// Routes a slot to who decides for it now.
    fn route_slot(&self, links: &Links, slot: u16) {
        let Some(cluster) = &self.node.cluster else { return };
        let decider = links.machine.borrow().decider(slot, self.node.clock.now_us());
        let route = match decider {
            Decider::Here => Route::Here,
            Decider::Soon => Route::Closing,
            Decider::There(name) => Route::Peer(cluster.number_of(&name)),
            Decider::Nobody => Route::Nobody,
        };
        cluster.routes.set(slot, route);
        cluster.routes.set_epoch(slot, links.machine.borrow().epoch(slot).0);
        if route != Route::Closing {
            self.shard.borrow_mut().set_slot_closed(slot, false);
            links.has_opened.set(true);
        }
    }

    fn route_all(&self, links: &Links) {
        let range = links.machine.borrow().range();
        range.for_each(|slot| self.route_slot(links, slot));
    }

    /// Waits until nothing is under way in a slot that takes no new commands, and says so. If the machine lets go of the slot before, that
    /// is the end of it: by then there may be new commands, and another attempt.
    pub(super) async fn close_slot(self: Rc<Self>, slot: u16, number: u64) {
        let Some(links) = &self.links else { return };
        // While the attempt lasts none is queued for the slot, so queues that are waited for once are so for good. Keys can be taken until
        // the slot is closed.
        links.queues.until_empty().await;
        links.flushing.until_empty().await;
        self.until_no_holds(slot).await;
        self.decide_checks();
        if !links.machine.borrow().is_freezing(slot, number) {
            return;
        }
        self.shard.borrow_mut().set_slot_closed(slot, true);
        // What the slot's journal has travels with it.
        self.tell_journals();
        self.step_slots(|machine, step| machine.frozen(slot, number, step));
    }

    fn note_event(&self, links: &Links, event: &Event) {
        match event {
            Event::Paused { pause_us } => {
                tracing::warn!(event = "node_paused", pause_us);
                self.route_all(links);
            }
            Event::Confirmed => {
                tracing::info!(event = "node_confirmed");
                self.route_all(links);
            }
            Event::TookOver { slot, epoch, in_step } => {
                tracing::debug!(event = "slot_taken_over", slot, epoch = epoch.0, in_step);
            }
            Event::Nonsense { peer } => self.note_nonsense(peer),
            event => tracing::debug!(event = "slot", what = ?event),
        }
    }

    /// A peer has sent something that makes no sense. That it happens is logged once, how often is counted.
    fn note_nonsense(&self, peer: &Arc<str>) {
        let Some(links) = &self.links else { return };
        self.counters().peer_nonsense.add(1);
        if links.nonsense.borrow_mut().insert(Arc::clone(peer)) {
            tracing::warn!(event = "peer_nonsense", %peer, "its messages about slots make no sense; others will only be counted");
        }
    }

    /// Takes messages of a peer's slot machine.
    fn take_slot_messages(self: &Rc<Self>, from: &PeerId, body: &[u8]) {
        let mut messages = SlotMessages::of(body).map_while(|message| {
            if message.is_err() {
                self.note_nonsense(&from.id.name);
            }
            message.ok()
        });
        loop {
            let next: Vec<slots::Message> = messages.by_ref().take(AT_ONCE).collect();
            if next.is_empty() {
                return;
            }
            let batches = next.iter().filter_map(|message| match message {
                slots::Message::Batch(batch) => Some((batch.slot, &*batch.entries)),
                _ => None,
            });
            self.shard.borrow().look_at_batches(batches);
            self.step_slots(|machine, step| {
                for message in next {
                    machine.receive(&from.id, from.worker, message, step);
                }
            });
        }
    }

    /// Takes a view: who is there, and where the slots belong.
    fn take_view(self: &Rc<Self>, view: Arc<View>) {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return;
        };
        let own = links.machine.borrow().range();
        links.peers.retain(|name| view.member(name).is_some());
        links.circuits.borrow_mut().retain(|name| view.member(name).is_some());
        links.nonsense.borrow_mut().retain(|name| view.member(name).is_some());
        for member in view.members() {
            if member.id.name == cluster.me.name {
                continue;
            }
            links.peers.set(&member.id.name, member.id.generation, &member.peer);
            for worker in 0..member.workers {
                let theirs = slots_of(worker, member.workers);
                if theirs.start < own.end && own.start < theirs.end {
                    // It is made now, and again whenever it is lost.
                    let _ = links.peers.link(&member.id.name, worker);
                }
            }
        }
        let table = |of: &dyn Fn(u16) -> Option<u16>| -> Arc<[u16]> {
            (0..SLOTS).map(|slot| of(slot).unwrap_or(NOBODY)).collect()
        };
        let for_machine = slots::View {
            members: view
                .members()
                .iter()
                .map(|member| (member.id.clone(), member.state == MemberState::Leaving))
                .collect(),
            targets: table(&|slot| view.target(slot)),
            heirs: table(&|slot| view.heir(slot)),
        };
        self.free_lent_to_gone(&view);
        links.view.replace(view);
        self.step_slots(|machine, step| machine.view(&for_machine, step));
    }

    /// Deals with what has happened to connections.
    fn hear_links(self: &Rc<Self>) {
        let Some(links) = &self.links else { return };
        while let Some(heard) = links.heard.take() {
            let now_us = self.node.clock.now_us();
            match heard.event {
                PeerEvent::Connected(hello) => {
                    let theirs = slots_of(heard.worker, hello.workers);
                    links.circuits.borrow_mut().answered(&heard.peer, now_us);
                    self.step_slots(|machine, step| machine.link_up(&hello.id, heard.worker, theirs, step));
                    self.call_all_of(&heard.peer, heard.worker);
                }
                PeerEvent::Lost(_) => {
                    self.call_all_over(&heard.peer, heard.worker);
                    self.step_slots(|machine, step| machine.link_lost(&heard.peer, heard.worker, step));
                }
                PeerEvent::Failed(PeerError::Refused) => {
                    links.circuits.borrow_mut().refused(&heard.peer, now_us);
                }
                PeerEvent::Failed(_) => {}
            }
        }
    }

    /// Tells the others, through gossip, what this worker's slots come to.
    fn tell_home(&self) {
        let (Some(cluster), Some(links)) = (&self.node.cluster, &self.links) else {
            return;
        };
        let mut machine = links.machine.borrow_mut();
        let view = links.view.borrow();
        let own = &cluster.workers[self.index];
        let (dropped, owed) = machine.journal_figures();
        own.owed.set(owed as u64);
        let counters = self.counters();
        counters.journal_buckets.set(owed as u64);
        let (copies, moves) = machine.waited();
        let hits = [
            (Bound::JournalBuckets, dropped > counters.journal_tokens_dropped.get()),
            (Bound::SlotCopies, copies),
            (Bound::SlotMoves, moves),
        ];
        hits.into_iter()
            .filter(|(_, is_hit)| *is_hit)
            .for_each(|(bound, _)| counters.limit_hit(bound));
        counters.journal_tokens_dropped.set(dropped);
        let told = Some((machine.version(), view.hash()));
        if links.told.replace(told) == told {
            return cluster.tell_home();
        }
        let me = view.rank(&cluster.me.name);
        let held = machine.range().filter(|&slot| machine.is_held(slot));
        let mut sum = 0_u64;
        let (mut count, mut astray) = (0, 0);
        for slot in held {
            count += 1;
            astray += u64::from(view.target(slot) != me || me.is_none());
            sum =
                sum.wrapping_add((machine.epoch(slot).0 ^ (u64::from(slot) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        own.held.set(count);
        counters.slots_held.set(count);
        counters.slots_astray.set(astray);
        own.astray.set(astray);
        own.sum.set(sum);
        own.view.set(view.hash());
        cluster.tell_home();
    }

    /// Which worker of a peer has a slot.
    pub(super) fn worker_of(&self, peer: &str, slot: u16) -> u16 {
        let Some(links) = &self.links else { return 0 };
        let view = links.view.borrow();
        view.member(peer)
            .map_or(0, |member| owner(slot, usize::from(member.workers.max(1))) as u16)
    }
}

/// What a worker does with what its peers say.
#[derive(Debug)]
pub struct FromPeers {
    worker: Rc<Worker>,
    /// Numbers of peers' connections, for the lanes of what they forward.
    numbers: RefCell<HashMap<(Incarnation, u16), u32>>,
    /// The next of them.
    next: Cell<u32>,
}

impl FromPeers {
    /// For that worker.
    pub fn new(worker: Rc<Worker>) -> Self {
        Self {
            worker,
            numbers: RefCell::default(),
            next: Cell::default(),
        }
    }

    fn number_of(&self, peer: &PeerId) -> u32 {
        let mut numbers = self.numbers.borrow_mut();
        *numbers.entry((peer.id.clone(), peer.worker)).or_insert_with(|| {
            // A number that comes again after so many would only keep two peers' commands in order with each other.
            self.next.replace(self.next.get().wrapping_add(1))
        })
    }
}

impl PeerHandler for FromPeers {
    fn on_frame(self: Rc<Self>, from: &PeerId, kind: Kind, body: &[u8], reply: ReplyHandle) {
        match kind {
            Kind::Slot => self.worker.take_slot_messages(from, body),
            Kind::Forward => {
                let number = self.number_of(from);
                self.worker.serve_forward(number, from.version, body, reply);
            }
            Kind::Lend => self.worker.serve_lend(from, body, reply),
            Kind::GiveBack => self.worker.serve_give_back(from, body, reply),
            Kind::Watch => self.worker.serve_watch(from, body, reply),
            Kind::Await => self.worker.serve_await(from, body, reply),
            Kind::Called => self.worker.take_call(from.version, body),
            Kind::Probe => {
                let view = self.worker.links.as_ref().map_or(0, |links| links.view.borrow().hash());
                // If the connection is over, nobody waits for that.
                let _ = reply.reply(&Pong { view });
            }
            Kind::AskStatus | Kind::Drain => self.worker.serve_operation(kind, from.version, body, reply),
            Kind::Keyspace => self.worker.serve_keyspace(from.version, body, reply),
            Kind::Publish => self.worker.serve_publish(from.version, body, reply),
            Kind::Listeners => self.worker.serve_listeners(from.version, body, reply),
            Kind::Scripts => self.worker.serve_scripts(from.version, body, reply),
            Kind::Libraries => self.worker.serve_libraries(from.version, body, reply),
            Kind::KeyspaceDone
            | Kind::Published
            | Kind::Listening
            | Kind::ScriptsAnswer
            | Kind::LibrariesAnswer
            | Kind::Lent
            | Kind::GivenBack
            | Kind::Noted
            | Kind::Pong
            | Kind::Replies
            | Kind::Status
            | Kind::DrainBegun
            | Kind::NotUnderstood => {
                // If the connection is over, nobody waits for that.
                let _ = reply.not_understood();
            }
        }
    }

    fn on_close(&self, peer: &PeerId, _why: PeerError) {
        self.worker.free_lent_over(peer.connection);
        self.worker.forget_interest_over(peer.connection);
        self.numbers
            .borrow_mut()
            .retain(|(id, _), _| id.name != peer.id.name || id.generation >= peer.id.generation);
    }
}
