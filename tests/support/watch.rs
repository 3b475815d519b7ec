//! Whether a server goes on answering others while something keeps it busy.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Client;

/// How long an answer may take on a loaded machine before the server counts as hung.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Connections that ask one question after the other until they are told to stop.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<(usize, Duration)>>,
}

/// What the connections saw.
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    /// The fewest answers that one of them got.
    pub answers: usize,
    /// The longest wait for one.
    pub longest: Duration,
}

impl Watch {
    /// So many connections to a server, each of which has asked once already.
    pub fn start(address: SocketAddr, connections: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(Barrier::new(connections + 1));
        let watchers = (0..connections).map(|number| {
            let (stop, begun) = (Arc::clone(&stop), Arc::clone(&begun));
            let mut client = Client::connect(address);
            let key = format!("watch:{number}");
            client.command(&["SET", &key, "seen"]);
            std::thread::spawn(move || {
                let (mut answers, mut longest) = (0, Duration::ZERO);
                assert_eq!(client.command(&["PING"]).text(), "PONG");
                begun.wait();
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    match answers % 2 {
                        0 => assert_eq!(client.command(&["GET", &key]).text(), "seen"),
                        _ => assert_eq!(client.command(&["PING"]).text(), "PONG"),
                    }
                    longest = longest.max(asked.elapsed());
                    answers += 1;
                }
                (answers, longest)
            })
        });
        let watchers = watchers.collect();
        begun.wait();
        Self { stop, watchers }
    }

    /// Ends it.
    ///
    /// # Panics
    /// If an answer was wrong or took two seconds.
    pub fn stop(self) -> Watched {
        self.stop_within(ANSWER_LIMIT)
    }

    /// Ends it.
    ///
    /// # Panics
    /// If an answer was wrong or took longer than `limit`.
    pub fn stop_within(self, limit: Duration) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self
            .watchers
            .into_iter()
            .map(|watcher| watcher.join().expect("right answers"));
        let watched = seen.fold(
            Watched {
                answers: usize::MAX,
                longest: Duration::ZERO,
            },
            |all, (answers, longest)| Watched {
                answers: all.answers.min(answers),
                longest: all.longest.max(longest),
            },
        );
        assert!(watched.longest < limit, "{watched:?}");
        watched
    }
}
