//! Libraries of functions that all nodes have.
//!
//! A change is told to all nodes before it is answered. Besides, a node asks another one now and then, each one that is new to it at once,
//! and one of them before it takes slots, for what is newer than it knows. Of each library the newest change wins.

use crate::loans::Keys;
use crate::peers::{Answer, ReplyHandle};
use crate::steps::Length;
use crate::stretch::Stretch;
use crate::worker::Worker;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_cluster::wire::{self, Kind, LibrariesAnswer, LibraryChange, read_message};
use tollgate_commands::{
    ALL, Batch, CommandError, Env, LibraryRecord, LibraryVersion, ScriptCommand, ScriptStep, Session, Spec,
};
use tollgate_protocol::{Proto, Request};

/// Bytes of texts that are sent together.
const TEXTS_BYTES: usize = 1 << 20;
/// How long the others are waited for that load a library.
const LOAD_PATIENCE: Duration = Duration::from_secs(3);
/// How long a node that starts waits to hear of one whose libraries it can have.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);
/// How soon a node is asked again that has not answered yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How often another node is asked for what is newer.
const ASK_INTERVAL: Duration = Duration::from_secs(2);

/// A change that another node has told.
struct Told {
    name: Box<str>,
    version: LibraryVersion,
    text: Option<Box<[u8]>>,
}

fn owned(version: wire::LibraryVersion<'_>) -> LibraryVersion {
    LibraryVersion {
        counter: version.counter,
        node: version.node.into(),
    }
}

fn borrowed(version: &LibraryVersion) -> wire::LibraryVersion<'_> {
    wire::LibraryVersion {
        counter: version.counter,
        node: &version.node,
    }
}

fn told(changes: Vec<LibraryChange<'_>>) -> Vec<Told> {
    let changes = changes.into_iter().map(|change| Told {
        name: change.name.into(),
        version: owned(change.version),
        text: change.text.map(Box::from),
    });
    changes.collect()
}

fn telling(records: &[LibraryRecord]) -> Vec<LibraryChange<'_>> {
    let changes = records.iter().map(|record| LibraryChange {
        name: &record.name,
        version: borrowed(&record.version),
        text: record.text(),
    });
    changes.collect()
}

/// The command that loads a library.
fn load_spec() -> Option<&'static Spec> {
    let subcommands = ALL.iter().flat_map(|spec| spec.subcommands);
    subcommands.into_iter().find(|spec| spec.name == "function|load")
}

impl Worker {
    /// Runs a command that changes the libraries here, and then tells the others.
    pub(super) async fn change_libraries(
        self: &Rc<Self>,
        session: &mut Session,
        env: &Env,
        (spec, request): (&'static Spec, Request<'_>),
        out: &mut Vec<u8>,
    ) {
        let before = self.node.functions.newest_change();
        self.run_alone(session, env, (spec, request), out).await;
        // What may be taken back is told when it stands.
        if session.library_changes.is_none() {
            self.tell_libraries(before).await;
        }
    }

    /// Tells the others which libraries this node has changed since its changes had that number. Those that do not answer ask later.
    pub async fn tell_libraries(&self, since: u64) {
        let (flushed, records) = self.node.functions.own_changes_since(since);
        if !self.has_peers() || (records.is_empty() && flushed.counter <= since) {
            return;
        }
        let deadline = Instant::now() + LOAD_PATIENCE;
        let mut from = 0;
        loop {
            let mut bytes = 0;
            let together = records[from..].iter().take_while(|record| {
                let fits = bytes < TEXTS_BYTES;
                bytes += record.text().map_or(0, <[u8]>::len);
                fits
            });
            let end = from + together.count();
            let message = wire::Libraries {
                flushed: borrowed(&flushed),
                changes: telling(&records[from..end]),
                known: None,
            };
            let asked = self.ask_all(|links, name, worker| links.peers.request(name, worker, &message));
            for (name, pending) in asked {
                if let Some(pending) = pending {
                    // Who does not answer asks later.
                    let _ = self.answer_of(&name, pending, deadline).await;
                }
            }
            from = end;
            if from >= records.len() {
                return;
            }
        }
    }

    /// Takes changes of others that are newer than what is known here.
    async fn take_libraries(self: &Rc<Self>, flushed: &LibraryVersion, changes: Vec<Told>) {
        let functions = &self.node.functions;
        functions.flush_at(flushed);
        for change in changes {
            if !functions.is_new_change(&change.name, &change.version) {
                continue;
            }
            match change.text {
                None => functions.delete_at(&change.name, &change.version),
                Some(text) => {
                    if let Err(reply) = self.load_library(&text, change.version).await {
                        let reply = String::from_utf8_lossy(&reply);
                        tracing::warn!(event = "library_refused", library = %change.name, reply = reply.trim_end());
                    }
                }
            }
        }
    }

    /// Loads a library that another node has loaded. The error is a whole reply.
    async fn load_library(self: &Rc<Self>, text: &[u8], version: LibraryVersion) -> Result<(), Vec<u8>> {
        let env = self.env(self.node.clock.now_us(), 0, Proto::Resp2);
        let mut out = Vec::new();
        let mut batch = Batch::default();
        if let Some(spec) = load_spec() {
            batch.push_args(spec, &env, [&b"FUNCTION"[..], b"LOAD", b"REPLACE", text].into_iter());
        }
        let Some((_, _, _, request)) = batch.get(0) else {
            return Err(out);
        };
        let number = self.next_run();
        let run = match self.prepare_script(&env, ScriptCommand::FunctionLoad, request, number) {
            Ok(run) => run,
            Err(error) => {
                error.write(&mut out, env.proto);
                return Err(out);
            }
        };
        let mut run = run.change_of(version);
        let mut keys = Keys::new(self, number);
        loop {
            let step = {
                let _pass = self.steps.pass(Length::Unknown).await;
                let stretch = Stretch::long();
                let step = self.script_slice(&mut run, &mut keys, request, &mut out);
                let took = stretch.end(self.counters());
                run.note_spent(took);
                self.steps.note(Length::Unknown, took);
                step
            };
            match step {
                ScriptStep::Done => break,
                ScriptStep::Yield => tokio::task::yield_now().await,
                // A library asks for no key.
                ScriptStep::Needs(_) => CommandError::TryAgain.write(&mut out, env.proto),
            }
            if !out.is_empty() {
                break;
            }
        }
        match out.first() {
            Some(b'-') => Err(out),
            _ => Ok(()),
        }
    }

    /// Takes what a peer tells, and tells it what it asks for.
    pub(in crate::cluster) fn serve_libraries(self: &Rc<Self>, version: u16, body: &[u8], reply: ReplyHandle) {
        let Ok(message) = read_message::<wire::Libraries<'_>>(version, body) else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let (flushed, changes) = (owned(message.flushed), told(message.changes));
        let known: Option<HashMap<Box<str>, LibraryVersion>> = message.known.map(|known| {
            let known = known.into_iter();
            known.map(|(name, version)| (name.into(), owned(version))).collect()
        });
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            worker.take_libraries(&flushed, changes).await;
            let functions = &worker.node.functions;
            let (flushed, records, more) = match &known {
                Some(known) => functions.changes_beside(known, TEXTS_BYTES),
                None => (functions.known_changes().0, Vec::new(), false),
            };
            let answer = LibrariesAnswer {
                flushed: borrowed(&flushed),
                changes: telling(&records),
                more,
            };
            // Who has gone wants no answer.
            let _ = reply.reply(&answer);
        });
    }

    /// Asks a peer for the changes that are newer than what is known here, and takes them. Answers whether the peer answered.
    async fn ask_for_libraries(self: &Rc<Self>, name: &Arc<str>, workers: u16) -> bool {
        let deadline = Instant::now() + LOAD_PATIENCE;
        loop {
            let (flushed, known) = self.node.functions.known_changes();
            let message = wire::Libraries {
                flushed: borrowed(&flushed),
                changes: Vec::new(),
                known: Some(
                    known
                        .iter()
                        .map(|(name, version)| (&**name, borrowed(version)))
                        .collect(),
                ),
            };
            let worker = self.index as u16 % workers;
            let Ok(pending) = self.ask_peer(name, |links| links.peers.request(name, worker, &message)) else {
                return false;
            };
            let Ok(answer) = self.answer_of(name, pending, deadline).await else {
                return false;
            };
            match self.take_answered(&answer).await {
                None => return false,
                Some(false) => return true,
                Some(true) => {}
            }
        }
    }

    /// Takes what was answered; whether there is more of it.
    async fn take_answered(self: &Rc<Self>, answer: &Answer) -> Option<bool> {
        if answer.kind != Kind::LibrariesAnswer {
            return None;
        }
        let message = read_message::<LibrariesAnswer<'_>>(answer.version, &answer.body).ok()?;
        let more = message.more;
        let (flushed, changes) = (owned(message.flushed), told(message.changes));
        let is_new = |change: &Told| self.node.functions.is_new_change(&change.name, &change.version);
        let was_new: Vec<(Box<str>, LibraryVersion)> = changes
            .iter()
            .filter(|change| is_new(change))
            .map(|change| (change.name.clone(), change.version.clone()))
            .collect();
        self.take_libraries(&flushed, changes).await;
        // What is refused comes again: it is not asked for at once.
        let functions = &self.node.functions;
        let took_some = was_new
            .iter()
            .any(|(name, version)| !functions.is_new_change(name, version));
        Some(more && took_some)
    }

    /// Keeps the libraries up to date for as long as the node runs. Before the node takes slots, it has those of another node.
    pub async fn keep_libraries(self: Rc<Self>) {
        let Some(cluster) = &self.node.cluster else { return };
        let mut views = cluster.view();
        if cluster.has_seeds {
            let deadline = Instant::now() + FIRST_PATIENCE;
            while !self.ask_first().await && Instant::now() < deadline {
                tokio::time::sleep(FIRST_INTERVAL).await;
            }
        }
        cluster.has_libraries();
        let mut met: HashMap<Arc<str>, u64> = HashMap::new();
        let mut next = 0;
        loop {
            let members: Vec<(Arc<str>, u64, u16)> = {
                let view = views.borrow_and_update();
                let others = view.members().iter().filter(|member| member.id.name != cluster.me.name);
                let members = others.map(|member| {
                    let name = Arc::clone(&member.id.name);
                    (name, member.id.generation, member.workers.max(1))
                });
                members.collect()
            };
            met.retain(|name, _| members.iter().any(|(member, ..)| member == name));
            for (name, generation, workers) in &members {
                if met.get(name) != Some(generation) && self.ask_for_libraries(name, *workers).await {
                    met.insert(Arc::clone(name), *generation);
                }
            }
            let wait = match met.len() == members.len() {
                true => ASK_INTERVAL,
                false => RETRY_INTERVAL,
            };
            match tokio::time::timeout(wait, views.changed()).await {
                Ok(Ok(())) => continue,
                // The node ends.
                Ok(Err(_)) => return,
                Err(_) => {}
            }
            if !members.is_empty() {
                next = (next + 1) % members.len();
                let (name, _, workers) = &members[next];
                self.ask_for_libraries(name, *workers).await;
            }
        }
    }

    /// Asks the first that answers for its libraries; whether one did.
    async fn ask_first(self: &Rc<Self>) -> bool {
        for (name, workers) in self.members_beside() {
            if self.ask_for_libraries(&name, workers).await {
                return true;
            }
        }
        false
    }
}
