//! When nodes were not given a processor: a node that waits its turn looks to others like one that does not answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(10);
/// A shorter wait than this, of all threads of a node in one look together, explains nothing.
const WAIT_MIN: Duration = Duration::from_millis(4);
/// For so long after a wait other nodes may take the node to be one that does not answer.
const AFTERWARDS_US: u64 = 150_000;

/// A wait for a processor.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// When it was over, at the latest, in microseconds.
    end_us: u64,
    length_us: u64,
}

/// Waits of processes that are watched, and of the thread that watches.
pub struct Delays {
    began: Arc<Mutex<Instant>>,
    watched: Arc<Mutex<Vec<Watched>>>,
    waits: Arc<Mutex<Vec<Wait>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A process, and how long its threads have waited so far.
struct Watched {
    pid: u32,
    waited: Option<Duration>,
}

impl Delays {
    /// Watches nobody yet. Times count from `began`.
    pub fn watch_from(began: Instant) -> Self {
        let (watched, waits) = (
            Arc::<Mutex<Vec<Watched>>>::default(),
            Arc::<Mutex<Vec<Wait>>>::default(),
        );
        let over = Arc::new(AtomicBool::new(false));
        let began = Arc::new(Mutex::new(began));
        let thread = {
            let (watched, waits, over) = (Arc::clone(&watched), Arc::clone(&waits), Arc::clone(&over));
            let began = Arc::clone(&began);
            std::thread::spawn(move || look_on(&began, &watched, &waits, &over))
        };
        Self {
            began,
            watched,
            waits,
            over,
            thread: Some(thread),
        }
    }

    /// Forgets what has been, and counts times from `began`.
    pub fn restart(&self, began: Instant) {
        *self.began.lock() = began;
        self.waits.lock().clear();
    }

    /// Watches a process from now on, until it ends.
    pub fn add(&self, pid: u32) {
        self.watched.lock().push(Watched { pid, waited: None });
    }

    /// Whether at that time, or shortly before, some node waited for a processor.
    pub fn explain(&self, at_us: u64) -> bool {
        let waits = self.waits.lock();
        waits.iter().any(|wait| {
            let start_us = wait.end_us.saturating_sub(wait.length_us + LOOK.as_micros() as u64);
            (start_us..=wait.end_us + AFTERWARDS_US).contains(&at_us)
        })
    }

    /// The longest of all waits.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.waits.lock().iter().map(|wait| wait.length_us).max().unwrap_or(0))
    }

    /// All waits together.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.waits.lock().iter().map(|wait| wait.length_us).sum())
    }
}

impl Drop for Delays {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn look_on(began: &Mutex<Instant>, watched: &Mutex<Vec<Watched>>, waits: &Mutex<Vec<Wait>>, over: &AtomicBool) {
    let mut looked = Instant::now();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let now = Instant::now();
        // What was late here may have been late there.
        let mut lengths = vec![(now - looked).saturating_sub(LOOK)];
        looked = now;
        watched.lock().retain_mut(|process| {
            let Some(waited) = waited(process.pid) else {
                return false;
            };
            // A thread that ends takes its time with it.
            let before = process.waited.replace(waited).unwrap_or(waited);
            lengths.push(waited.saturating_sub(before));
            true
        });
        let end_us = now.saturating_duration_since(*began.lock()).as_micros() as u64;
        let long = lengths.into_iter().filter(|length| *length >= WAIT_MIN);
        waits.lock().extend(long.map(|length| Wait {
            end_us,
            length_us: length.as_micros() as u64,
        }));
    }
}

/// How long the threads of a process have waited for a processor since they began; none if it has ended.
fn waited(pid: u32) -> Option<Duration> {
    let tasks = std::fs::read_dir(PathBuf::from(format!("/proc/{pid}/task"))).ok()?;
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        // Nanoseconds on a processor, nanoseconds waiting for one, turns.
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some(Duration::from_nanos(tasks.flatten().filter_map(of_task).sum()))
}
