//! What a turn does seldom: it waits while its commands are paused, shows them to who monitors, and leaves replies out that are not wanted.

use crate::pause::{self, Attention};
use crate::transaction;
use crate::turn::Turn;
use std::sync::Arc;
use std::time::Duration;
use tollgate_commands::{
    CommandError, ReplyMode, Run, Session, ShownSource, Spec, Wakeup, WorkerCommand, is_shown, write_shown,
};
use tollgate_protocol::{Request, parse_integer};
use tollgate_store::DATABASES;

impl Turn<'_> {
    /// Does what the node wants done before a command runs; whether it is to run at all.
    pub(crate) async fn attend(&mut self, session: &mut Session, spec: &'static Spec, request: Request<'_>) -> bool {
        if session.is_monitor && (spec.has_flag("readonly") || pause::writes(spec)) {
            let env = self.env(session);
            let refused = CommandError::Refused("Replica can't interact with the keyspace");
            self.refuse(&env, &refused).await;
            return false;
        }
        if self.worker().node.attention.get() & Attention::PAUSED != 0 && !self.wait_while_paused(session, spec).await {
            session.close_after_reply = true;
            return false;
        }
        let node = &self.worker().node;
        let is_queued = session.transaction.is_some() && transaction::is_queued(spec);
        // EXEC comes after its commands.
        let is_exec = matches!(spec.run, Run::Worker(WorkerCommand::Exec));
        if node.attention.get() & Attention::MONITORED != 0 && is_shown(spec) && !is_queued && !is_exec {
            let mut env = self.env(session);
            // Redis shows the database that a command leaves.
            if spec.name == "select"
                && let Some(db) = parse_integer(request.arg(1)).and_then(|db| u8::try_from(db).ok())
                && db < DATABASES
            {
                env.db = db;
            }
            let mut line = Vec::new();
            write_shown(&env, ShownSource::Client(session.peer), spec.name, request, &mut line);
            node.show_lines(line);
        }
        true
    }

    /// Waits as long as such a command is to wait. `false` if its client is gone, or is to go.
    async fn wait_while_paused(&mut self, session: &mut Session, spec: &'static Spec) -> bool {
        let writes = match spec.run {
            Run::Worker(WorkerCommand::Exec) => pause::exec_writes(session),
            _ => pause::writes(spec),
        };
        let worker = self.worker();
        let node = &worker.node;
        let waiting = Arc::<Wakeup>::default();
        let id = session.id;
        let until = || {
            node.pause
                .until(node.clock.now_us(), writes, (id, &waiting), &node.attention)
        };
        if until().is_none() {
            return true;
        }
        let _listed = Listed(&node.pause, session.id);
        session.begin(spec, node.clock.now_us());
        node.clients.note(session);
        self.finish(session).await;
        self.broke();
        self.send_finished(session).await;
        let mut is_there = true;
        while let Some(until_us) = until() {
            let left = Duration::from_micros(until_us.saturating_sub(node.clock.now_us()));
            is_there = worker.until_called_or(session.id, &waiting, left).await;
            if !is_there {
                break;
            }
        }
        self.refresh_clock();
        is_there
    }

    /// Sends what is finished, and not left out, before a wait.
    async fn send_finished(&mut self, session: &Session) {
        self.leave_out();
        let worker = self.worker();
        worker.send_before_waiting(session.id, self.out()).await;
        if let Some(kept) = self.kept_mut() {
            *kept = 0;
        }
    }

    /// Runs a request of a connection that does not want all replies.
    ///
    /// What is left out goes when it has to: before something is sent, or a reply is wanted again. So pipelines stay as they are.
    pub(crate) async fn run_muted(&mut self, session: &mut Session, request: Request<'_>) {
        self.stop_joining().await;
        if self.kept_mut().is_none() {
            self.finish(session).await;
            let len = self.out().len();
            *self.kept_mut() = Some(len);
        }
        let spec = self.worker().node.commands.find(request.arg(0));
        let listens = spec.is_some_and(|spec| spec.name.ends_with("subscribe"));
        let may_answer = listens || spec.is_none_or(|spec| matches!(spec.name, "client" | "reset"));
        let waits = spec.is_some_and(|spec| spec.has_flag("blocking"));
        let only_this = session.replies != ReplyMode::Off;
        if may_answer || waits || only_this {
            self.finish(session).await;
            self.leave_out();
            if waits {
                self.send_finished(session).await;
            }
        }
        self.execute(session, request).await;
        if may_answer || only_this {
            self.finish(session).await;
            // Whether one listens is said whatever replies are wanted, as in Redis.
            let is_wanted = listens || session.replies == ReplyMode::On;
            if is_wanted {
                let len = self.out().len();
                *self.kept_mut() = Some(len);
            }
            self.leave_out();
        }
        if session.replies != ReplyMode::Off {
            *self.kept_mut() = None;
        }
    }

    /// Finishes the segment, without what is left out.
    pub(crate) async fn finish_muted(&mut self, session: &Session) {
        if self.kept_mut().is_some() {
            self.finish(session).await;
            self.leave_out();
            *self.kept_mut() = None;
        }
    }

    /// Drops the replies that nobody wants.
    pub(crate) fn leave_out(&mut self) {
        if let Some(kept) = *self.kept_mut() {
            self.out().truncate(kept);
        }
    }
}

/// Takes one that waits off the list, also when its connection is ended meanwhile.
struct Listed<'a>(&'a pause::Pause, u64);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}
