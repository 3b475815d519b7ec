//! The load of a scenario: connections to all nodes that check keys and count, at a steady rate.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::sleep_until;
use tollgate_suite::{Draw, Value};

use crate::link::{Link, Unanswered};
use crate::oracle::{Check, Quota, Source};
use crate::outcome::{Command, Fault, Records};

/// Where a client may send its commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub at: SocketAddr,
}

/// What a load is made of.
#[derive(Debug, Clone)]
pub struct Plan {
    pub quota: Quota,
    /// Keys of RL.CHECK, and as many of CL.THROTTLE as a tenth of them.
    pub keys: usize,
    /// Tokens asked for, in relation to those that come.
    pub offered: f64,
    /// Other commands a second.
    pub others_per_s: f64,
    /// Connections, spread over the nodes.
    pub connections: usize,
}

impl Default for Plan {
    /// 1,000 keys that may have a token in two seconds, at twice that.
    fn default() -> Self {
        Self {
            quota: Quota {
                limit: 10,
                window: Duration::from_secs(20),
                burst: 10,
            },
            keys: 1_000,
            offered: 2.0,
            others_per_s: 200.0,
            connections: 24,
        }
    }
}

impl Plan {
    fn throttled(&self) -> usize {
        self.keys.div_ceil(10)
    }

    fn checks_per_s(&self) -> f64 {
        (self.keys + self.throttled()) as f64 * self.quota.tokens_per_s() * self.offered
    }

    /// Time between two commands of one connection.
    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.connections as f64 / (self.checks_per_s() + self.others_per_s))
    }
}

/// What the connections are told.
#[derive(Debug, Clone, Default)]
struct Orders {
    targets: Vec<Target>,
    /// Nodes whose replies are waited for no more.
    abandoned: Vec<String>,
    stop: bool,
}

/// A load that runs.
pub struct Load {
    plan: Plan,
    orders: watch::Sender<Orders>,
    thread: std::thread::JoinHandle<Records>,
}

impl Load {
    /// Begins. Times count from `began`.
    pub fn begin(plan: Plan, began: Instant, targets: Vec<Target>) -> Self {
        let (orders, told) = watch::channel(Orders {
            targets,
            ..Orders::default()
        });
        let thread = {
            let plan = plan.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                LocalSet::new().block_on(&runtime.expect("a runtime"), run(plan, began, told))
            })
        };
        Self { plan, orders, thread }
    }

    /// Connections go to these nodes from now on; those to others end when they have their reply.
    pub fn set_targets(&self, targets: Vec<Target>) {
        self.orders.send_modify(|orders| {
            orders
                .abandoned
                .retain(|name| targets.iter().all(|target| target.name != *name));
            orders.targets = targets;
        });
    }

    /// What that node still has to answer is waited for no more.
    pub fn abandon(&self, name: &str) {
        self.orders.send_modify(|orders| {
            orders.targets.retain(|target| target.name != name);
            orders.abandoned.push(name.to_owned());
        });
    }

    /// Ends, once all have their last reply.
    pub fn end(self) -> (Plan, Records) {
        self.orders.send_modify(|orders| orders.stop = true);
        (self.plan, self.thread.join().expect("the load runs"))
    }
}

async fn run(plan: Plan, began: Instant, told: watch::Receiver<Orders>) -> Records {
    let records = Rc::new(RefCell::new(Records::new(plan.keys, plan.throttled())));
    let connections: Vec<_> = (0..plan.connections)
        .map(|number| {
            let connection = Connection {
                number,
                plan: plan.clone(),
                began,
                told: told.clone(),
                records: Rc::clone(&records),
                draw: Draw::new(number as u64),
                link: None,
                counts: vec![Some(0); COUNTERS],
            };
            tokio::task::spawn_local(connection.run())
        })
        .collect();
    for connection in connections {
        connection.await.expect("no connection panics");
    }
    records.take()
}

/// Counters of each connection.
const COUNTERS: usize = 8;

/// One connection after the other, of one client.
struct Connection {
    number: usize,
    plan: Plan,
    began: Instant,
    told: watch::Receiver<Orders>,
    records: Rc<RefCell<Records>>,
    draw: Draw,
    link: Option<(Target, Link)>,
    /// What its counters must be, if that is known.
    counts: Vec<Option<i64>>,
}

impl Connection {
    async fn run(mut self) {
        let interval = self.plan.interval();
        let mut due = Instant::now() + interval.mul_f64(self.number as f64 / self.plan.connections as f64);
        loop {
            sleep_until(due.into()).await;
            // What could not be sent in time is left out.
            due = (due + interval).max(Instant::now());
            let orders = self.told.borrow_and_update().clone();
            if orders.stop {
                return;
            }
            let count = orders.targets.len();
            if count > 0 {
                self.send_one(&orders.targets[self.number % count]).await;
            }
        }
    }

    async fn send_one(&mut self, target: &Target) {
        let command = self.choose();
        let cost = self.cost(command);
        let args = self.encode(command, cost);
        let sent_us = self.now_us();
        let answer = self.ask(target, &args).await;
        let replied_us = self.now_us();
        let records = Rc::clone(&self.records);
        let mut records = records.borrow_mut();
        let Some(answer) = answer else {
            records.unanswered(command, cost);
            return self.forget(command);
        };
        match answer {
            Ok(Value::Error(text)) => {
                records.faults.push(Fault::new(replied_us, &target.name, command, text));
                self.forget(command);
            }
            Ok(value) => {
                records.answered(command, &target.name, replied_us, replied_us - sent_us);
                let check = |allowed, source| Check {
                    sent_us,
                    replied_us,
                    cost,
                    allowed,
                    source,
                };
                match command {
                    Command::Check(key) => {
                        let fields = value.items();
                        records.checks[key].push(check(fields[0].int() == 1, Source::named(fields[5].text())));
                    }
                    Command::Throttle(key) => {
                        // Its reply does not say who has decided.
                        records.throttles[key].push(check(value.items()[0].int() == 0, Source::Holder));
                    }
                    Command::Increment(counter) => {
                        let expected = self.counts[counter].map(|count| count + 1);
                        let found = value.int();
                        records.counted(replied_us, expected, found);
                        self.counts[counter] = Some(found);
                    }
                    Command::Read(counter) => {
                        let found = if value.is_null() {
                            0
                        } else {
                            value.text().parse().expect("a number")
                        };
                        records.counted(replied_us, self.counts[counter], found);
                        self.counts[counter] = Some(found);
                    }
                }
            }
            Err(why) => {
                records
                    .faults
                    .push(Fault::new(replied_us, &target.name, command, format!("{why:?}")));
                if !matches!(why, Unanswered::Unreached) {
                    records.unanswered(command, cost);
                }
                self.forget(command);
            }
        }
    }

    /// It is not known what has become of a command.
    fn forget(&mut self, command: Command) {
        if let Command::Increment(counter) = command {
            self.counts[counter] = None;
        }
    }

    /// Sends a command to a node; none if nobody waits for its answer any more.
    async fn ask(&mut self, target: &Target, args: &[Vec<u8>]) -> Option<Result<Value, Unanswered>> {
        let mut told = self.told.clone();
        let asked = async {
            let mut link = match self.link.take() {
                Some((at, link)) if at == *target => link,
                _ => Link::connect(target.at).await?,
            };
            let answer = link.ask(args).await?;
            self.link = Some((target.clone(), link));
            Ok(answer)
        };
        tokio::select! {
            answer = asked => Some(answer),
            _ = told.wait_for(|orders| orders.abandoned.contains(&target.name)) => None,
        }
    }

    fn choose(&mut self) -> Command {
        let checks_per_s = self.plan.checks_per_s();
        let is_other = (self.draw.below(1 << 20) as f64)
            < f64::from(1 << 20) * self.plan.others_per_s / (checks_per_s + self.plan.others_per_s);
        if is_other {
            let counter = self.draw.below(COUNTERS);
            return match self.draw.one_in(4) {
                true => Command::Read(counter),
                false => Command::Increment(counter),
            };
        }
        let key = self.draw.below(self.plan.keys + self.plan.throttled());
        match key.checked_sub(self.plan.keys) {
            None => Command::Check(key),
            Some(key) => Command::Throttle(key),
        }
    }

    /// The first check of a key empties its bucket.
    fn cost(&self, command: Command) -> u64 {
        let mut records = self.records.borrow_mut();
        match command {
            Command::Check(key) if !std::mem::replace(&mut records.emptied[key], true) => self.plan.quota.burst,
            _ => 1,
        }
    }

    fn encode(&self, command: Command, cost: u64) -> Vec<Vec<u8>> {
        let Quota { limit, window, burst } = self.plan.quota;
        let line = match command {
            Command::Check(key) => format!(
                "RL.CHECK load:check:{key} LIMIT {limit} PER {}ms BURST {burst} COST {cost}",
                window.as_millis()
            ),
            Command::Throttle(key) => {
                format!(
                    "CL.THROTTLE load:throttle:{key} {} {limit} {} {cost}",
                    burst - 1,
                    window.as_secs()
                )
            }
            Command::Increment(counter) => format!("INCR load:count:{}:{counter}", self.number),
            Command::Read(counter) => format!("GET load:count:{}:{counter}", self.number),
        };
        line.split(' ').map(|arg| arg.as_bytes().to_vec()).collect()
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }
}
