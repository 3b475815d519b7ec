//! The gossip thread: it looks at what chitchat knows, several times a second and whenever that changes, and says what follows.

use super::facts::{self, Said};
use super::files::{Differing, Files};
use super::liveness::Liveness;
use super::names::{Answer, Claim, Farewell, Holder, Question, Register, claim};
use super::transport::{Datagram, GossipTransport, Wire};
use super::{GossipConfig, GossipError, GossipStatus, Home, Inputs, MemberFacts, seeds, system};
use chitchat::{ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, spawn_chitchat};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use tollgate_cluster::{ALONE_AFTER_US, Heard, Incarnation, MemberState, Membership, View};

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How often it greets seeds that it has not heard.
const GREET_INTERVAL: Duration = Duration::from_millis(500);
/// How many peers are told at once when this node has something new to say.
const TOLD_MAX: usize = 8;
/// How long a process of this node's name has to be heard that cannot be asked before this one gives way.
const SUPERSEDED_AFTER: Duration = Duration::from_secs(5);
/// How many heartbeats the mean interval is taken over.
const SAMPLES: usize = 100;
/// Of so many that have said farewell it is remembered.
const FAREWELLS_MAX: usize = 256;
/// Whose versions were refused is remembered for so many.
const REFUSED_MAX: usize = 256;

/// What the thread has in its hands.
pub(super) struct Ends {
    pub inputs: watch::Receiver<Inputs>,
    pub stopped: oneshot::Receiver<()>,
    pub started: std::sync::mpsc::SyncSender<Result<Started, GossipError>>,
}

/// What comes of a start.
pub(super) struct Started {
    pub me: Incarnation,
    pub view: watch::Receiver<Arc<View>>,
    pub status: watch::Receiver<Arc<GossipStatus>>,
}

/// Runs until it is stopped, or fails.
pub(super) fn thread(config: GossipConfig, socket: std::net::UdpSocket, ends: Ends) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ends.started.send(Err(system(error)));
            return;
        }
    };
    runtime.block_on(async {
        let Ends {
            inputs,
            stopped,
            started,
        } = ends;
        match Run::start(config, socket, inputs).await {
            Ok((mut run, outputs)) => {
                if started.send(Ok(outputs)).is_ok() {
                    run.until(stopped).await;
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    });
}

struct Run {
    config: GossipConfig,
    me: Incarnation,
    own_id: ChitchatId,
    chitchat: ChitchatHandle,
    wire: Arc<Wire>,
    register: Arc<Register>,
    answers: mpsc::Receiver<(SocketAddr, Answer)>,
    farewells: mpsc::Receiver<Farewell>,
    /// Who has said farewell.
    left: VecDeque<Farewell>,
    seeds: watch::Receiver<HashSet<SocketAddr>>,
    membership: Membership,
    liveness: Liveness<ChitchatId>,
    inputs: watch::Receiver<Inputs>,
    view: watch::Sender<Arc<View>>,
    status: watch::Sender<Arc<GossipStatus>>,
    /// What was said last, by key.
    said: BTreeMap<&'static str, String>,
    begin: Instant,
    greeted: Option<Instant>,
    /// Where gossip of those who are alive comes from.
    peers: Vec<SocketAddr>,
    /// Since when another process has this node's name.
    rival_since: Option<Instant>,
    nonce: u64,
    refused: HashSet<ChitchatId>,
    differing: Differing,
    /// Whether it has been told of others and is not in the ring yet.
    seeks_others: bool,
}

/// What was made of one look.
#[derive(Default)]
struct Look {
    /// Of each name the last generation that is alive.
    alive: BTreeMap<Arc<str>, MemberFacts>,
    dead: BTreeMap<Arc<str>, (u64, u64)>,
    /// Other processes of this node's name that are alive.
    rivals: Vec<ChitchatId>,
    remembered: usize,
}

impl Run {
    async fn start(
        config: GossipConfig,
        socket: std::net::UdpSocket,
        inputs: watch::Receiver<Inputs>,
    ) -> Result<(Self, Started), GossipError> {
        let socket = tokio::net::UdpSocket::from_std(socket).map_err(system)?;
        let (seal, lossy) = (config.seal.clone(), config.lossy.clone());
        let wire = Arc::new(Wire::new(socket, seal, lossy, Arc::clone(&config.counters)));
        let addresses = seeds::resolve(&config.seeds, true).await;
        let mut me = Incarnation {
            name: Arc::clone(&config.name),
            generation: config.generation,
        };
        let nonce = random_u64();
        match claim(&wire, &me, config.advertised, &addresses, nonce).await {
            Claim::Taken { at } => return Err(GossipError::NameTaken { name: me.name, at }),
            Claim::Free { above } => me.generation = me.generation.max(above.saturating_add(1)),
        }
        let others = addresses.iter().any(|seed| *seed != config.advertised) || has_names(&config.seeds);
        let (seeds_tx, seeds) = watch::channel(addresses);
        tokio::spawn(seeds::keep(config.seeds.clone(), seeds_tx));
        let begin = Instant::now();
        let membership =
            Membership::new(me.clone(), config.slots, others, 0).with_delay_max_us(config.delay_max.as_micros() as u64);
        let own_id = ChitchatId::new(Arc::clone(&me.name), me.generation, config.advertised);
        let said = BTreeMap::from([
            (facts::MEMBER, facts::write_member(&config.identity)),
            (
                facts::STATE,
                facts::write_state(membership.state(), membership.returns()),
            ),
            (facts::DEPARTURES, facts::write_departures(Vec::new())),
            (facts::VIEW, facts::write_home(Home::default())),
            (facts::FILES, config.files.write()),
        ]);
        let register = Arc::new(Register::new(me.clone()));
        let (answers_tx, answers) = mpsc::channel(16);
        let (farewells_tx, farewells) = mpsc::channel(64);
        let transport = GossipTransport {
            wire: Arc::clone(&wire),
            register: Arc::clone(&register),
            answers: answers_tx,
            farewells: farewells_tx,
        };
        let keys = said
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        let chitchat = spawn_chitchat(detector(&config, own_id.clone()), keys, &transport)
            .await
            .map_err(system)?;
        let (view, view_rx) = watch::channel(Arc::clone(membership.view()));
        let (status, status_rx) = watch::channel(Arc::default());
        let liveness = Liveness::new(config.silence_min.as_micros() as u64, 0);
        let started = Started {
            me: me.clone(),
            view: view_rx,
            status: status_rx,
        };
        let run = Self {
            config,
            me,
            own_id,
            chitchat,
            wire,
            register,
            answers,
            farewells,
            left: VecDeque::new(),
            seeds,
            membership,
            liveness,
            inputs,
            view,
            status,
            said,
            begin,
            greeted: None,
            peers: Vec::new(),
            rival_since: None,
            nonce,
            refused: HashSet::new(),
            differing: Differing::default(),
            seeks_others: others,
        };
        Ok((run, started))
    }

    async fn until(&mut self, mut stopped: oneshot::Receiver<()>) {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = self
            .chitchat
            .with_chitchat(|chitchat| chitchat.live_nodes_watcher())
            .await;
        let ended = self.chitchat.termination_watcher();
        tokio::pin!(ended);
        loop {
            tokio::select! {
                // What it is told goes before what it hears; that it is stopped goes before all.
                biased;
                stopped = &mut stopped => {
                    if stopped.is_ok() {
                        self.say_farewell().await;
                    }
                    return;
                }
                result = &mut ended => {
                    let reason = result.err().map_or_else(|| "it ended".to_owned(), |error| format!("{error:#}"));
                    self.fail(GossipError::System(reason));
                    return;
                }
                changed = self.inputs.changed() => if changed.is_err() { return },
                answer = self.answers.recv() => {
                    if let Some((at, Answer { nonce, holder: Holder::Me { generation } })) = answer
                        && nonce == self.nonce
                        && generation < self.me.generation
                    {
                        let name = Arc::clone(&self.me.name);
                        self.fail(GossipError::NameTaken { name, at });
                        return;
                    }
                    continue;
                }
                farewell = self.farewells.recv() => if let Some(farewell) = farewell {
                    self.left.push_back(farewell);
                    let too_many = self.left.len().saturating_sub(FAREWELLS_MAX);
                    self.left.drain(..too_many);
                },
                _ = changes.changed() => {}
                _ = looks.tick() => {}
            }
            // What follows from a look may be something to say, and that changes what a look sees.
            for _ in 0..3 {
                if !self.look().await {
                    break;
                }
            }
            if self.status.borrow().failed.is_some() {
                return;
            }
            self.greet();
        }
    }

    /// Looks once. Returns whether this node has something new to say.
    async fn look(&mut self) -> bool {
        let inputs = *self.inputs.borrow_and_update();
        if inputs.prepared {
            self.membership.prepared();
        }
        match inputs.leaving {
            true => self.membership.leave(),
            false => self.membership.stay(),
        }
        let now_us = self.begin.elapsed().as_micros() as u64;
        let seen = self.see(now_us).await;
        let heard: Vec<Heard> = seen.alive.values().map(|facts| facts.heard.clone()).collect();
        let before = self.membership.state();
        let changed = self.membership.hear(now_us, &heard);
        let state = self.membership.state();
        if state != before {
            tracing::info!(
                event = "member_state",
                ?state,
                damped_until_us = self.membership.damped_until_us()
            );
        }
        if changed {
            self.announce(&seen);
        }
        if state == MemberState::Ready && std::mem::take(&mut self.seeks_others) {
            self.say_if_alone(&seen);
        }
        self.compare_files(&seen);
        let view = Arc::clone(self.membership.view());
        let alive = seen
            .alive
            .iter()
            .map(|(name, facts)| (Arc::clone(name), (facts.heard.member.id.generation, facts.gossip)));
        self.register.set(alive.collect());
        self.peers = seen
            .alive
            .values()
            .map(|facts| facts.gossip)
            .filter(|peer| *peer != self.own_id.gossip_advertise_addr)
            .collect();
        self.meet_rivals(&seen.rivals).await;
        let failed = self.status.borrow().failed.clone();
        self.status.send_replace(Arc::new(GossipStatus {
            state: Some(state),
            damped_ms: self
                .membership
                .damped_until_us()
                .map_or(0, |until_us| until_us.saturating_sub(now_us) / 1_000),
            settled: view.is_settled(&heard),
            dead: seen
                .dead
                .iter()
                .filter(|(name, _)| !seen.alive.contains_key(*name))
                .map(|(name, &(generation, silent_ms))| {
                    (
                        Incarnation {
                            name: Arc::clone(name),
                            generation,
                        },
                        silent_ms,
                    )
                })
                .collect(),
            alive: seen.alive.into_values().collect(),
            remembered: seen.remembered,
            failed,
        }));
        let home = Home {
            view_hash: view.hash(),
            at_home: inputs.home.at_home && inputs.home.view_hash == view.hash(),
            slots_hash: inputs.home.slots_hash,
        };
        self.say(vec![
            (facts::STATE, facts::write_state(state, self.membership.returns())),
            (facts::DEPARTURES, facts::write_departures(self.membership.claims())),
            (facts::VIEW, facts::write_home(home)),
        ])
        .await
    }

    /// Takes what chitchat knows.
    async fn see(&mut self, now_us: u64) -> Look {
        let chitchat = self.chitchat.chitchat();
        let chitchat = chitchat.lock().await;
        let detected: HashSet<&ChitchatId> = chitchat.live_nodes().collect();
        let mut look = Look::default();
        self.liveness.begin(now_us);
        for (id, state) in chitchat.node_states() {
            look.remembered += 1;
            let own = *id == self.own_id;
            let left = |farewell: &Farewell| (&farewell.name, farewell.generation) == (&id.node_id, id.generation_id);
            let detected = detected.contains(id) && !self.left.iter().any(left);
            let alive = own || self.liveness.see(id, state.heartbeat().into(), detected) && !self.left.iter().any(left);
            let silent_ms = if own { 0 } else { self.liveness.silent_us(id) / 1_000 };
            if !alive {
                let dead = look.dead.entry(Arc::clone(&id.node_id)).or_default();
                *dead = (*dead).max((id.generation_id, silent_ms));
                continue;
            }
            if !own && id.node_id == self.me.name {
                look.rivals.push(id.clone());
            }
            match facts::read(state, &self.config.versions) {
                Said::Member(heard, slots_hash, files) => {
                    let facts = MemberFacts {
                        heard: *heard,
                        slots_hash,
                        files,
                        gossip: id.gossip_advertise_addr,
                        silent_ms,
                    };
                    let best = look
                        .alive
                        .entry(Arc::clone(&id.node_id))
                        .or_insert_with(|| facts.clone());
                    let order =
                        |facts: &MemberFacts| (facts.heard.member.id.generation, facts.heard.member.peer.clone());
                    if order(&facts) > order(best) {
                        *best = facts;
                    }
                }
                Said::OtherVersions(first, last) => {
                    if self.refused.len() < REFUSED_MAX && self.refused.insert(id.clone()) {
                        let (own_first, own_last) = (self.config.versions.start(), self.config.versions.end());
                        tracing::error!(
                            event = "peer_version_refused",
                            name = &*id.node_id,
                            peer = %id.gossip_advertise_addr,
                            "it speaks versions {first} to {last} of the peers' protocol, this node {own_first} to {own_last}"
                        );
                    }
                }
                Said::Nothing => {}
            }
        }
        self.liveness.end();
        look
    }

    /// Publishes the view, and logs who came and went.
    fn announce(&mut self, look: &Look) {
        let view = Arc::clone(self.membership.view());
        let before = self.view.send_replace(Arc::clone(&view));
        let counters = &self.wire.counters;
        let in_state = |state| view.members().iter().filter(|member| member.state == state).count() as u64;
        counters.joining.set(in_state(MemberState::Joining));
        counters.ready.set(in_state(MemberState::Ready));
        counters.leaving.set(in_state(MemberState::Leaving));
        counters.views.add(1);
        for member in view.members() {
            let known = before.member(&member.id.name);
            if known.is_none_or(|known| known.id != member.id || known.state != member.state) {
                let (name, generation, state) = (&*member.id.name, member.id.generation, member.state);
                tracing::info!(event = "member", name, generation, ?state, peer = &*member.peer);
            }
        }
        for gone in before
            .members()
            .iter()
            .filter(|member| view.member(&member.id.name).is_none())
        {
            let silent_ms = look.dead.get(&gone.id.name).map(|(_, silent_ms)| *silent_ms);
            tracing::warn!(
                event = "member_gone",
                name = &*gone.id.name,
                generation = gone.id.generation,
                silent_ms
            );
        }
    }

    /// Warns if a node that was to join others has become a cluster of its own.
    fn say_if_alone(&self, look: &Look) {
        if look.alive.keys().any(|name| *name != self.me.name) {
            return;
        }
        tracing::warn!(
            event = "alone",
            join = self.config.seeds.join(","),
            "heard nobody of cluster.join in {} s: forming a cluster of its own; if they run, look at the addresses, at what lies \
             between, and whether all have the same cluster secret",
            ALONE_AFTER_US / 1_000_000
        );
    }

    /// Warns of members whose rules or policies are not those of this node.
    fn compare_files(&mut self, look: &Look) {
        let own = self.config.files;
        let others = look.alive.iter().filter(|(name, _)| **name != self.me.name);
        let others = others.filter_map(|(_, facts)| Some((facts.heard.member.id.clone(), facts.files?)));
        for (other, Files { rules, policies }) in self.differing.see(own, others) {
            let what = match (rules != own.rules, policies != own.policies) {
                (true, true) => "rules and policies",
                (true, false) => "rules",
                (false, _) => "policies",
            };
            tracing::warn!(
                event = "files_differ",
                name = &*self.me.name,
                other = &*other.name,
                what,
                "these nodes have not the same {what}: a check is decided by those of the node that has its key"
            );
        }
        let (rules, policies) = self.differing.counts(own);
        self.wire.counters.other_rules.set(rules);
        self.wire.counters.other_policies.set(policies);
    }

    /// Says what has changed, and tells peers at once. Returns whether anything has.
    async fn say(&mut self, values: Vec<(&'static str, String)>) -> bool {
        let changed: Vec<_> = values
            .into_iter()
            .filter(|(key, value)| self.said.get(key) != Some(value))
            .collect();
        if changed.is_empty() {
            return false;
        }
        let chitchat = self.chitchat.chitchat();
        let mut chitchat = chitchat.lock().await;
        for (key, value) in changed {
            chitchat.self_node_state().set(key, &value);
            self.said.insert(key, value);
        }
        drop(chitchat);
        for peer in self.peers.iter().take(TOLD_MAX) {
            // It fails only when gossip has ended, which is seen elsewhere.
            let _ = self.chitchat.gossip(*peer);
        }
        true
    }

    /// Tells all peers that this node ends.
    async fn say_farewell(&self) {
        let farewell = Datagram::Farewell(Farewell {
            name: Arc::clone(&self.me.name),
            generation: self.me.generation,
        });
        for peer in &self.peers {
            self.wire.send(*peer, &farewell).await;
        }
    }

    /// Greets the seeds that are not among the peers: as a newcomer, and as one who was cut off for so long that all have forgotten.
    fn greet(&mut self) {
        if self.greeted.is_some_and(|greeted| greeted.elapsed() < GREET_INTERVAL) {
            return;
        }
        self.greeted = Some(Instant::now());
        for &seed in &*self.seeds.borrow_and_update() {
            if seed != self.own_id.gossip_advertise_addr && !self.peers.contains(&seed) {
                let _ = self.chitchat.gossip(seed);
            }
        }
    }

    /// Another process of this node's name is alive. The later one asks the earlier, and gives way if there is an answer; if it cannot be
    /// asked, the earlier one gives way in the end.
    async fn meet_rivals(&mut self, rivals: &[ChitchatId]) {
        let own = (self.own_id.generation_id, self.own_id.gossip_advertise_addr);
        let mut superseded = false;
        for rival in rivals {
            if (rival.generation_id, rival.gossip_advertise_addr) > own {
                superseded = true;
            } else if rival.gossip_advertise_addr != own.1 {
                let question = Question {
                    nonce: self.nonce,
                    name: Arc::clone(&self.me.name),
                    generation: self.me.generation,
                };
                self.wire
                    .send(rival.gossip_advertise_addr, &Datagram::Question(question))
                    .await;
            }
        }
        if !superseded {
            self.rival_since = None;
        } else if self.rival_since.get_or_insert_with(Instant::now).elapsed() >= SUPERSEDED_AFTER {
            let name = Arc::clone(&self.me.name);
            self.fail(GossipError::Superseded { name });
        }
    }

    fn fail(&self, error: GossipError) {
        tracing::error!(event = "gossip_failed", %error);
        self.status
            .send_modify(|status| Arc::make_mut(status).failed = Some(error));
    }
}

fn has_names(seeds: &[String]) -> bool {
    seeds.iter().any(|seed| seed.parse::<SocketAddr>().is_err())
}

fn detector(config: &GossipConfig, id: ChitchatId) -> ChitchatConfig {
    ChitchatConfig {
        listen_addr: id.gossip_advertise_addr,
        chitchat_id: id,
        cluster_id: "tollgate".to_owned(),
        gossip_interval: config.interval,
        // Greeted by this thread, which resolves them more often.
        seed_nodes: Vec::new(),
        failure_detector_config: FailureDetectorConfig {
            phi_threshold: config.phi,
            sampling_window_size: SAMPLES,
            max_interval: config.interval_max,
            initial_interval: config.interval,
            dead_node_grace_period: config.grace,
        },
        marked_for_deletion_grace_period: config.grace,
        catchup_callback: None,
        extra_liveness_predicate: None,
    }
}

/// A number that nobody can guess.
fn random_u64() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
