//! Nodes of one cluster, in processes, and the clients of a scenario.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_suite::Node;

use crate::delays::Delays;
use crate::load::{Load, Plan, Target};
use crate::network::{HOST, Network};
use crate::outcome::{Outcome, Records};
use crate::second_client::{Library, SecondClient};
use crate::table;

/// After that long, what is waited for does not come. Moves on a machine that has much else to do take some seconds.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long what has changed may be on its way to those who follow.
const IN_STEP: Duration = Duration::from_millis(500);
/// How long clients need to see that a node is no longer for them.
const NOTICE: Duration = Duration::from_millis(150);

/// A cluster, and its clients once they have begun.
pub struct Cluster {
    began: Instant,
    pub delays: Delays,
    pub network: Option<Network>,
    nodes: BTreeMap<String, Node>,
    /// Arguments that all nodes have.
    args: Vec<String>,
    clients: Option<Clients>,
    /// Nodes that were taken away while there were clients.
    gone: Vec<String>,
}

struct Clients {
    load: Load,
    second: Option<SecondClient>,
    /// Those that follow redirections.
    of_clusters: Vec<SecondClient>,
    began: Instant,
    ticks: u64,
}

impl Cluster {
    /// A cluster of nodes of these names, once all have their slots.
    pub fn start(names: &[&str]) -> Self {
        let mut cluster = Self::empty(&[]);
        cluster.start_nodes(names);
        cluster
    }

    /// As [`Cluster::start`], with nodes that have a redirecting face.
    pub fn start_redirecting(names: &[&str]) -> Self {
        let mut cluster = Self::empty(&["--redirect-listen", "127.0.0.1:0"]);
        cluster.start_nodes(names);
        cluster
    }

    /// As [`Cluster::start`], with nodes that reach each other through a network which can be cut.
    pub fn start_in_network(names: &[&str]) -> Self {
        Self::start_in_network_with(names, &[])
    }

    /// As [`Cluster::start_in_network`], with further arguments for each node.
    pub fn start_in_network_with(names: &[&str], args: &[&str]) -> Self {
        let mut cluster = Self::empty(args);
        cluster.network = Some(Network::new());
        cluster.start_nodes(names);
        cluster
    }

    /// No nodes yet.
    pub fn empty(args: &[&str]) -> Self {
        let began = Instant::now();
        Self {
            began,
            delays: Delays::watch_from(began),
            network: None,
            nodes: BTreeMap::new(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            clients: None,
            gone: Vec::new(),
        }
    }

    fn start_nodes(&mut self, names: &[&str]) {
        for name in names {
            self.add(name, &[]);
        }
        self.settle();
    }

    /// A node; it was started.
    pub fn node(&self, name: &str) -> &Node {
        self.nodes
            .get(name)
            .unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// Names of the nodes, those among them that were stopped by a signal.
    pub fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Starts a node that joins the others, and does not wait until it has slots.
    pub fn add(&mut self, name: &str, environment: &[(&str, &str)]) {
        let args = self.args_of(name, None);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let node = Node::try_start_in(&args, environment)
            .unwrap_or_else(|failure| panic!("{name} did not start: {}", failure.log));
        self.took(name, node);
    }

    /// Starts a node again that has ended, at its old addresses.
    pub fn start_again(&mut self, name: &str) {
        let node = self
            .nodes
            .remove(name)
            .unwrap_or_else(|| panic!("there was no node {name}"));
        let args = self.args_of(name, node.peer().map(|peer| peer.port()));
        self.took(name, node.restart_with(args));
    }

    fn took(&mut self, name: &str, node: Node) {
        self.delays.add(node.pid());
        self.nodes.insert(name.to_owned(), node);
    }

    /// Arguments of a node, with the addresses of all others to join.
    pub fn args_of(&self, name: &str, peer_port: Option<u16>) -> Vec<String> {
        let (port, host) = match &self.network {
            Some(network) => (network.place(name), HOST),
            None => (peer_port.unwrap_or(0), "127.0.0.1"),
        };
        let mut args = vec![
            "--name".to_owned(),
            name.to_owned(),
            "--workers".to_owned(),
            "1".to_owned(),
        ];
        args.extend(["--peer".to_owned(), format!("127.0.0.1:{port}")]);
        if self.network.is_some() {
            args.extend(["--advertise".to_owned(), host.to_owned()]);
        }
        for (other, node) in &self.nodes {
            if let (true, Some(peer)) = (other != name, node.peer()) {
                args.extend(["--join".to_owned(), format!("{host}:{}", peer.port())]);
            }
        }
        args.extend(self.args.iter().cloned());
        args
    }

    /// Waits until all nodes that are there have their slots, and those who follow are in step.
    pub fn settle(&self) {
        let names = self.names();
        let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
        self.settle_on(&nodes);
    }

    /// Waits until these nodes have all slots between them.
    pub fn settle_on(&self, names: &[&str]) {
        let share = 16_384.0 / names.len() as f64;
        let held = |name: &&str| self.node(name).metric("tollgate_slots_held").unwrap_or(0.0);
        let astray = |name: &&str| self.node(name).metric("tollgate_slots_astray").unwrap_or(0.0);
        let started = Instant::now();
        loop {
            let all: Vec<f64> = names.iter().map(held).collect();
            let spread = all.iter().all(|held| (0.7 * share..1.2 * share).contains(held));
            if spread && all.iter().sum::<f64>() == 16_384.0 && names.iter().map(astray).sum::<f64>() == 0.0 {
                break;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "the slots of {names:?} are not where they belong: {all:?}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(IN_STEP);
    }

    /// What the nodes have printed.
    pub fn logs(&self) -> String {
        let logs = self
            .nodes
            .iter()
            .map(|(name, node)| format!("--- {name}:\n{}", node.log()));
        logs.collect()
    }

    /// Begins a load, and redis-py beside it, on all nodes.
    pub fn begin(&mut self, plan: Plan) {
        self.begin_beside(plan, &[]);
    }

    /// As [`Cluster::begin`], with these clients of Redis Cluster beside them.
    pub fn begin_beside(&mut self, plan: Plan, libraries: &[Library]) {
        let targets = self.targets();
        let began = Instant::now();
        self.delays.restart(began);
        self.began = began;
        let second = SecondClient::start(Library::RedisPy, plan.quota, began, &targets);
        let redirecting = self.nodes.iter().filter_map(|(name, node)| {
            Some(Target {
                name: name.clone(),
                at: node.redirect_listen()?,
            })
        });
        let redirecting: Vec<Target> = redirecting.collect();
        let start = |&library: &Library| SecondClient::start(library, plan.quota, began, &redirecting);
        let of_clusters = libraries.iter().filter_map(start);
        self.clients = Some(Clients {
            of_clusters: of_clusters.collect(),
            load: Load::begin(plan, began, targets),
            second,
            began,
            ticks: self.ticks(),
        });
    }

    /// Microseconds since the load began.
    pub fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    fn targets(&self) -> Vec<Target> {
        let stayed = self.nodes.iter().filter(|(name, _)| !self.gone.contains(name));
        stayed
            .map(|(name, node)| Target {
                name: name.clone(),
                at: node.listen(),
            })
            .collect()
    }

    /// Tells clients which nodes there are.
    pub fn tell_clients(&mut self) {
        let targets = self.targets();
        if let Some(clients) = &mut self.clients {
            if let Some(second) = &mut clients.second {
                second.set_targets(&targets);
            }
            clients.load.set_targets(targets);
        }
    }

    /// A node that has started, or goes on, is there for clients.
    pub fn is_back(&mut self, name: &str) {
        self.gone.retain(|gone| gone != name);
        self.tell_clients();
    }

    /// Clients leave a node, as a balancer tells them to, and do so before this returns.
    pub fn take_out(&mut self, name: &str) {
        self.gone.push(name.to_owned());
        self.tell_clients();
        std::thread::sleep(NOTICE);
    }

    /// SIGKILL. Clients go to the others.
    pub fn kill(&mut self, name: &str) {
        self.node_mut(name).kill();
        self.gone.push(name.to_owned());
        self.tell_clients();
    }

    /// SIGTERM, and waits until the node has ended. Its clients stay until then.
    pub fn leave(&mut self, name: &str) {
        let status = self.node_mut(name).stop();
        let log = self.node(name).log();
        assert!(status.success(), "{name} ended with {status}:\n{log}");
        self.gone.push(name.to_owned());
        self.tell_clients();
    }

    /// SIGSTOP. The clients of the node give it up; redis-py, which waits for every answer, has left it before.
    pub fn pause(&mut self, name: &str) {
        self.gone.push(name.to_owned());
        let targets = self.targets();
        if let Some(clients) = &mut self.clients
            && let Some(second) = &mut clients.second
        {
            second.set_targets(&targets);
            std::thread::sleep(NOTICE);
        }
        self.node(name).signal("STOP");
        if let Some(clients) = &mut self.clients {
            clients.load.abandon(name);
        }
    }

    /// SIGCONT.
    pub fn go_on(&self, name: &str) {
        self.node(name).signal("CONT");
    }

    fn node_mut(&mut self, name: &str) -> &mut Node {
        self.nodes
            .get_mut(name)
            .unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// Forgets a node that has ended.
    pub fn forget(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Lets the load go on for so long.
    pub fn run_for(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Ends the clients, and writes their rows.
    pub fn end(&mut self, scenario: &str) -> Outcomes {
        let clients = self.clients.take().expect("there are clients");
        let second = clients.second.map(SecondClient::end);
        let of_clusters = clients.of_clusters.into_iter();
        let of_clusters: Vec<_> = of_clusters
            .map(|client| (client.library.name(), client.end()))
            .collect();
        let (plan, records) = clients.load.end();
        let ticks = self.ticks() - clients.ticks;
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let cpu = ticks as f64 / TICKS_PER_S / clients.began.elapsed().as_secs_f64() / processors as f64;
        let outcome = |client, records: Records| {
            let mut outcome = Outcome::new(scenario, client, plan.quota, records, &self.delays);
            outcome.gone.clone_from(&self.gone);
            outcome.cpu = cpu;
            table::write(&outcome);
            outcome
        };
        Outcomes {
            load: outcome("load", records),
            second: second.map(|records| outcome(Library::RedisPy.name(), records)),
            of_clusters: of_clusters
                .into_iter()
                .map(|(name, records)| outcome(name, records))
                .collect(),
        }
    }

    /// Processor time that the nodes and the clients have taken, in ticks.
    fn ticks(&self) -> u64 {
        let of = |process: &str| -> u64 {
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
                return 0;
            };
            // After the name, which may have blanks: utime, stime, and both of those who have ended.
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            let fields = fields.split_whitespace().skip(11).take(4);
            fields.filter_map(|field| field.parse::<u64>().ok()).sum()
        };
        let nodes = self.nodes.values().map(|node| of(&node.pid().to_string()));
        of("self") + nodes.sum::<u64>()
    }
}

/// What `/proc` counts processor time in, on every Linux.
const TICKS_PER_S: f64 = 100.0;

/// What the clients of a scenario have seen.
pub struct Outcomes {
    pub load: Outcome,
    pub second: Option<Outcome>,
    /// Clients of Redis Cluster.
    pub of_clusters: Vec<Outcome>,
}

impl Outcomes {
    /// Each of them.
    pub fn each(&self) -> impl Iterator<Item = &Outcome> {
        std::iter::once(&self.load).chain(&self.second).chain(&self.of_clusters)
    }

    /// See [`Outcome::assert_planned`].
    pub fn assert_planned(&self) {
        self.each().for_each(Outcome::assert_planned);
    }
}
