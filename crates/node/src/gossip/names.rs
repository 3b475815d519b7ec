//! A name is one process's. Who starts asks whether somebody has its name, and whether that one answers.
//!
//! A node that was killed and started again finds its former self in everybody's gossip; nobody answers for that. It also takes a
//! generation above that of its former self, whatever the clock says meanwhile.

use super::transport::{DATAGRAM_BYTES_MAX, Datagram, Wire};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tollgate_cluster::Incarnation;

/// How long a question may go unanswered before it counts as never.
const ANSWER_LIMIT: Duration = Duration::from_millis(800);
/// How often it is asked meanwhile.
const ASK_INTERVAL: Duration = Duration::from_millis(100);

/// Who has this name?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    /// Tells the questions of one process apart.
    pub nonce: u64,
    pub name: Arc<str>,
    /// That of who asks.
    pub generation: u64,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub nonce: u64,
    pub holder: Holder,
}

/// A node ends, and says so: nobody needs to wait for its silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Farewell {
    pub name: Arc<str>,
    pub generation: u64,
}

/// Who has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Holder {
    /// The one that answers.
    Me { generation: u64 },
    /// One that the other takes to be alive.
    Other { generation: u64, gossip: SocketAddr },
    /// Nobody that it knows of.
    Nobody,
}

/// What a node answers from.
#[derive(Debug)]
pub(super) struct Register {
    me: Incarnation,
    alive: Mutex<HashMap<Arc<str>, (u64, SocketAddr)>>,
}

impl Register {
    pub(super) fn new(me: Incarnation) -> Self {
        Self {
            me,
            alive: Mutex::default(),
        }
    }

    /// Takes who is alive: of each name the last generation.
    pub(super) fn set(&self, alive: HashMap<Arc<str>, (u64, SocketAddr)>) {
        *self.alive.lock() = alive;
    }

    /// The answer to a question; none to its own.
    pub(super) fn answer(&self, question: &Question) -> Option<Answer> {
        let holder = if question.name != self.me.name {
            let alive = self.alive.lock();
            let found = alive.get(&question.name);
            found.map_or(Holder::Nobody, |&(generation, gossip)| Holder::Other {
                generation,
                gossip,
            })
        } else if question.generation == self.me.generation {
            return None;
        } else {
            let generation = self.me.generation;
            Holder::Me { generation }
        };
        Some(Answer {
            nonce: question.nonce,
            holder,
        })
    }
}

/// What comes of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The name is free; generations have to be above this.
    Free { above: u64 },
    /// Somebody has it.
    Taken { at: SocketAddr },
}

/// Asks the seeds who has this node's name, and then that one. `wire` is not used by anything else yet.
pub(super) async fn claim(
    wire: &Wire,
    me: &Incarnation,
    own: SocketAddr,
    seeds: &HashSet<SocketAddr>,
    nonce: u64,
) -> Claim {
    let question = Question {
        nonce,
        name: Arc::clone(&me.name),
        generation: me.generation,
    };
    let others: Vec<SocketAddr> = seeds.iter().copied().filter(|seed| *seed != own).collect();
    let mut above = 0;
    let Some((from, holder)) = ask(wire, &question, &others).await else {
        return Claim::Free { above };
    };
    match holder {
        Holder::Me { .. } => return Claim::Taken { at: from },
        Holder::Nobody => {}
        Holder::Other { generation, gossip } => {
            above = generation;
            // Another number: other seeds' answers to the first question are still coming.
            let question = Question {
                nonce: nonce.wrapping_add(1),
                ..question
            };
            // At this node's own address there is no other process.
            if gossip != own
                && let Some((at, Holder::Me { .. })) = ask(wire, &question, &[gossip]).await
            {
                return Claim::Taken { at };
            }
        }
    }
    Claim::Free { above }
}

/// The first answer to a question that names a holder, and whose it is; if all say that there is none, or no more come in a while, that.
async fn ask(wire: &Wire, question: &Question, of: &[SocketAddr]) -> Option<(SocketAddr, Holder)> {
    if of.is_empty() {
        return None;
    }
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let end = Instant::now() + ANSWER_LIMIT;
    let mut nobody = HashMap::new();
    while Instant::now() < end {
        for &seed in of {
            wire.send(seed, &Datagram::Question(question.clone())).await;
        }
        let round = (Instant::now() + ASK_INTERVAL).min(end);
        while let Ok((from, datagram)) = timeout_at(round, wire.receive(&mut buffer)).await {
            match datagram {
                Datagram::Answer(answer) if answer.nonce == question.nonce => match answer.holder {
                    // One that has just started knows nobody yet.
                    Holder::Nobody => {
                        nobody.insert(from, answer.holder);
                        if nobody.len() >= of.len() {
                            return Some((from, answer.holder));
                        }
                    }
                    holder => return Some((from, holder)),
                },
                // Two that start at once: the earlier one has the name.
                Datagram::Question(other)
                    if other.name == question.name
                        && (other.generation, other.nonce) > (question.generation, question.nonce) =>
                {
                    let generation = question.generation;
                    let holder = Holder::Me { generation };
                    let nonce = other.nonce;
                    wire.send(from, &Datagram::Answer(Answer { nonce, holder })).await;
                }
                _ => {}
            }
        }
        if let Some(answer) = nobody.drain().next() {
            return Some(answer);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UdpSocket;

    fn me(name: &str, generation: u64) -> Incarnation {
        Incarnation {
            name: name.into(),
            generation,
        }
    }

    async fn wire() -> (Arc<Wire>, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        (Arc::new(Wire::new(socket, None, None, Arc::default())), address)
    }

    /// A node that answers questions.
    async fn node(name: &str, generation: u64, alive: &[(&str, u64, SocketAddr)]) -> SocketAddr {
        let (wire, address) = wire().await;
        let register = Register::new(me(name, generation));
        register.set(
            alive
                .iter()
                .map(|&(name, generation, at)| (name.into(), (generation, at)))
                .collect(),
        );
        tokio::spawn(async move {
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            loop {
                let (from, datagram) = wire.receive(&mut buffer).await;
                let Datagram::Question(question) = datagram else {
                    continue;
                };
                if let Some(answer) = register.answer(&question) {
                    wire.send(from, &Datagram::Answer(answer)).await;
                }
            }
        });
        address
    }

    async fn asks(name: &str, seeds: &[SocketAddr]) -> Claim {
        let (wire, own) = wire().await;
        claim(
            &wire,
            &me(name, 50),
            own,
            &seeds.iter().copied().chain([own]).collect(),
            1,
        )
        .await
    }

    #[tokio::test]
    async fn a_name_that_answers_is_taken() {
        let taken = node("a", 7, &[]).await;
        assert_eq!(asks("a", &[taken]).await, Claim::Taken { at: taken });
        let seed = node("b", 8, &[("a", 7, taken)]).await;
        assert_eq!(asks("a", &[seed]).await, Claim::Taken { at: taken });
        // Whoever of several answers first, and whatever those say that come later.
        let (same, unaware) = (node("c", 9, &[("a", 7, taken)]).await, node("d", 10, &[]).await);
        for _ in 0..20 {
            assert_eq!(asks("a", &[seed, same, unaware]).await, Claim::Taken { at: taken });
        }
    }

    #[tokio::test]
    async fn a_name_that_does_not_answer_is_free() {
        let (silent, at) = wire().await;
        let seed = node("b", 8, &[("a", 7, at), ("c", 1, at)]).await;
        assert_eq!(asks("a", &[seed]).await, Claim::Free { above: 7 });
        assert_eq!(asks("d", &[seed]).await, Claim::Free { above: 0 });
        assert_eq!(asks("a", &[at]).await, Claim::Free { above: 0 });
        assert_eq!(asks("a", &[]).await, Claim::Free { above: 0 });
        drop(silent);
    }

    #[tokio::test]
    async fn of_two_that_start_at_once_one_has_the_name() {
        let ((one, one_at), (two, two_at)) = (wire().await, wire().await);
        let seeds = HashSet::from([one_at, two_at]);
        for (generations, taken) in [
            ((50, 60), [false, true]),
            ((60, 50), [true, false]),
            ((50, 50), [false, true]),
        ] {
            let (first, second) = (me("a", generations.0), me("a", generations.1));
            let (first, second) = tokio::join!(
                claim(&one, &first, one_at, &seeds, 1),
                claim(&two, &second, two_at, &seeds, 2)
            );
            assert_eq!(
                [first, second].map(|claim| matches!(claim, Claim::Taken { .. })),
                taken,
                "{generations:?}"
            );
        }
    }

    #[test]
    fn a_node_does_not_answer_itself() {
        let register = Register::new(me("a", 7));
        let question = |name: &str, generation| Question {
            nonce: 3,
            name: name.into(),
            generation,
        };
        assert_eq!(register.answer(&question("a", 7)), None);
        let answer = register.answer(&question("a", 9)).unwrap();
        assert_eq!((answer.nonce, answer.holder), (3, Holder::Me { generation: 7 }));
    }
}
