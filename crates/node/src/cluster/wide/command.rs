//! Commands that a node does for itself, on all nodes.

use super::parts::Unanswered;
use crate::limits::Bound;
use crate::worker::Worker;
use std::rc::Rc;
use std::time::Duration;
use tollgate_commands::{CheckQueue, CommandError, ConnectionCall, Env, Run, Session, Spec, Wide};
use tollgate_protocol::{ReplyWriter, Request};

use crate::work::Ran;

/// How long others are waited for that are told, or asked, what takes them no time.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

impl Worker {
    /// Whether there are other nodes.
    pub fn has_peers(&self) -> bool {
        self.links
            .as_ref()
            .is_some_and(|links| links.view.borrow().members().len() > 1)
    }

    /// What a command does at other nodes, if there are any.
    pub fn wide(&self, spec: &Spec) -> Option<Wide> {
        spec.wide.filter(|_| self.has_peers())
    }

    /// Runs a command on all nodes, and writes its reply. In a transaction or a script whose messages are sent later, it is that of this
    /// node.
    pub async fn run_everywhere(
        self: &Rc<Self>,
        wide: Wide,
        session: &mut Session,
        env: &Env,
        (spec, request): (&'static Spec, Request<'_>),
        out: &mut Vec<u8>,
    ) {
        let own = |session: &mut Session, out: &mut Vec<u8>| match spec.run {
            Run::Connection(run) => run(&mut ConnectionCall {
                session,
                node: &*self.node,
                env,
                request,
                out,
            }),
            _ => Ok(()),
        };
        let mut reply = Vec::new();
        let done = match wide {
            Wide::Publish(_) if session.published.is_some() => own(session, out),
            Wide::Publish(sharded) => {
                let own = |out: &mut Vec<u8>| own(session, out);
                return self.publish_everywhere((env, request), sharded, own, out).await;
            }
            Wide::Libraries => return self.change_libraries(session, env, (spec, request), out).await,
            // What is wrong with it, this node says.
            _ => own(session, &mut reply),
        };
        if let Err(error) = done {
            if let CommandError::PatternTooLong(_) = error {
                self.counters().limit_hit(Bound::PatternBytes);
            }
            return error.write(out, env.proto);
        }
        match wide {
            Wide::Channels(sharded) => self.channels_everywhere(env, request, sharded, out).await,
            Wide::Counts(sharded) => self.counts_everywhere(env, request, sharded, out).await,
            Wide::Patterns => self.patterns_everywhere(env, out).await,
            Wide::ScriptExists => self.exist_everywhere(env, request, out).await,
            Wide::ScriptLoad => {
                self.load_everywhere(request.arg(2)).await;
                out.extend_from_slice(&reply);
            }
            Wide::ScriptFlush => {
                let nodes = self.forget_scripts_everywhere().await;
                match nodes.is_empty() {
                    true => out.extend_from_slice(&reply),
                    false => refuse(env, "not all scripts are forgotten", nodes, out),
                }
            }
            Wide::Publish(_) | Wide::Libraries => {}
        }
    }

    /// Runs a command as it comes, on this node alone, and writes its reply.
    pub(super) async fn run_alone(
        self: &Rc<Self>,
        session: &mut Session,
        env: &Env,
        (spec, request): (&'static Spec, Request<'_>),
        out: &mut Vec<u8>,
    ) {
        match spec.run {
            Run::Connection(run) => {
                let mut call = ConnectionCall {
                    session,
                    node: &*self.node,
                    env,
                    request,
                    out,
                };
                if let Err(error) = run(&mut call) {
                    error.write(out, env.proto);
                }
            }
            _ => {
                let mut queue = CheckQueue::default();
                queue.start(false);
                if let Ran::Later(work) = self.try_run(env, &mut queue, spec, request, out) {
                    self.finish(work, env, &mut queue, spec, request, out).await;
                }
            }
        }
    }

    /// Asks every peer something, those that may be asked; `ask` is told the name and the worker.
    pub(super) fn ask_all(
        &self,
        ask: impl Fn(&crate::cluster::Links, &str, u16) -> Result<crate::peers::Pending, crate::peers::PeerError>,
    ) -> Vec<(std::sync::Arc<str>, Option<crate::peers::Pending>)> {
        let members = self.members_beside().into_iter();
        let asked = members.map(|(name, workers)| {
            let worker = self.index as u16 % workers;
            let pending = self.ask_peer(&name, |links| ask(links, &name, worker));
            (name, pending.ok())
        });
        asked.collect()
    }
}

/// Says that a command was not done everywhere.
pub(super) fn refuse(env: &Env, what: &str, nodes: std::collections::BTreeSet<std::sync::Arc<str>>, out: &mut Vec<u8>) {
    let unanswered = Unanswered { nodes, slots: 0 };
    ReplyWriter::new(out, env.proto).error("CLUSTERDOWN", &format!("{what}: {unanswered}"));
}

/// The integer that a reply is.
pub(super) fn integer_of(reply: &[u8]) -> Option<i64> {
    let digits = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}
