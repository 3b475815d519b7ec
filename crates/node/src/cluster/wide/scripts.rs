//! Scripts that all nodes know: SCRIPT LOAD tells them, SCRIPT FLUSH too, and who is asked for one that it does not know asks them.

use super::ANSWER_PATIENCE;
use crate::limits::Bound;
use crate::peers::{Answer, ReplyHandle};
use crate::worker::Worker;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;
use tollgate_cluster::wire::{self, Kind, ScriptsAnswer, ScriptsAsk, ScriptsTold, read_message};
use tollgate_commands::{Env, Run, ScriptCommand, Transaction};
use tollgate_protocol::{ReplyWriter, Request};

/// How long a script that no node knows is not asked for again, in microseconds.
const UNKNOWN_US: u64 = 200_000;

/// Digits of a SHA-1.
const SHA1_DIGITS: usize = 40;

/// Scripts that no node knew a moment ago.
#[derive(Debug, Default)]
pub struct UnknownScripts {
    /// By SHA-1: until when nobody is asked again, by the node's clock.
    until_us: RefCell<HashMap<Box<[u8]>, u64>>,
}

impl UnknownScripts {
    fn has(&self, sha1: &[u8], now_us: u64) -> bool {
        self.until_us
            .borrow()
            .get(sha1)
            .is_some_and(|&until_us| now_us < until_us)
    }

    /// Notes one; whether there was no room, so that others were forgotten.
    fn note(&self, sha1: &[u8], now_us: u64, most: usize) -> bool {
        let mut until_us = self.until_us.borrow_mut();
        let mut forgets = false;
        if until_us.len() >= most {
            until_us.retain(|_, until_us| now_us < *until_us);
            forgets = until_us.len() >= most;
            if forgets {
                until_us.clear();
            }
        }
        until_us.insert(sha1.into(), now_us + UNKNOWN_US);
        forgets
    }
}

/// What a peer says of scripts.
fn told(answer: &Answer) -> Option<ScriptsTold<'_>> {
    if answer.kind != Kind::ScriptsAnswer {
        return None;
    }
    let message = read_message::<ScriptsAnswer<'_>>(answer.version, &answer.body).ok()?;
    Some(message.answer)
}

impl Worker {
    /// Asks all peers something about scripts. Answers what they say, and who does not answer.
    async fn scripts_elsewhere(&self, what: ScriptsAsk<'_>) -> (Vec<Answer>, BTreeSet<Arc<str>>) {
        let message = wire::Scripts { what };
        let deadline = Instant::now() + ANSWER_PATIENCE;
        let (mut answers, mut silent) = (Vec::new(), BTreeSet::new());
        for (name, pending) in self.ask_all(|links, name, worker| links.peers.request(name, worker, &message)) {
            let answer = match pending {
                Some(pending) => self.answer_of(&name, pending, deadline).await.ok(),
                None => None,
            };
            match answer {
                Some(answer) => answers.push(answer),
                None => drop(silent.insert(name)),
            }
        }
        (answers, silent)
    }

    /// Whether other nodes may know a script that this one does not.
    pub fn may_ask_for_script(&self, sha1: &[u8]) -> bool {
        let Some(links) = &self.links else { return false };
        sha1.len() == SHA1_DIGITS
            && self.has_peers()
            && self.node.scripts.find(sha1).is_none()
            && !links
                .unknown_scripts
                .has(&sha1.to_ascii_lowercase(), self.node.clock.now_us())
    }

    /// Asks the other nodes for a script. If none of them knows it, they are not asked again for a moment.
    pub async fn ask_for_script(&self, sha1: &[u8]) {
        let sha1 = sha1.to_ascii_lowercase();
        let (Some(links), Ok(digits)) = (&self.links, std::str::from_utf8(&sha1)) else {
            return;
        };
        let (answers, _) = self.scripts_elsewhere(ScriptsAsk::Find { sha1: digits }).await;
        for answer in &answers {
            if let Some(ScriptsTold::Found { text: Some(text) }) = told(answer)
                && self.node.scripts.learn_as(text, &sha1)
            {
                return;
            }
        }
        let most = self.node.config.limits.unknown_scripts;
        if links.unknown_scripts.note(&sha1, self.node.clock.now_us(), most) {
            self.counters().limit_hit(Bound::UnknownScripts);
        }
    }

    /// Asks for the scripts of a transaction that this node does not know.
    pub async fn know_scripts(&self, transaction: &Transaction) {
        let mut index = 0;
        while let Some((spec, _, _, request)) = transaction.commands.get(index) {
            index += 1;
            let is_by_sha1 = matches!(spec.run, Run::Script(ScriptCommand::EvalSha | ScriptCommand::EvalShaRo));
            if is_by_sha1 && self.may_ask_for_script(request.arg(1)) {
                self.ask_for_script(request.arg(1)).await;
            }
        }
    }

    /// Tells all nodes of a script that was loaded. Those that do not hear of it ask for it when they need it.
    pub(super) async fn load_everywhere(&self, text: &[u8]) {
        self.scripts_elsewhere(ScriptsAsk::Load { text }).await;
    }

    /// `SCRIPT EXISTS`
    pub(super) async fn exist_everywhere(&self, env: &Env, request: Request<'_>, out: &mut Vec<u8>) {
        let sha1s: Vec<Vec<u8>> = request.iter().skip(2).map(<[u8]>::to_ascii_lowercase).collect();
        let mut known: Vec<bool> = sha1s
            .iter()
            .map(|sha1| self.node.scripts.find(sha1).is_some())
            .collect();
        if known.contains(&false) {
            // What is no text is no SHA-1, and nobody knows it.
            let digits = sha1s.iter().map(|sha1| std::str::from_utf8(sha1).unwrap_or_default());
            let (answers, _) = self
                .scripts_elsewhere(ScriptsAsk::Exist {
                    sha1s: digits.collect(),
                })
                .await;
            for answer in &answers {
                if let Some(ScriptsTold::Known { known: there }) = told(answer) {
                    known.iter_mut().zip(there).for_each(|(known, there)| *known |= there);
                }
            }
        }
        let mut reply = ReplyWriter::new(out, env.proto);
        reply.array(known.len());
        known.into_iter().for_each(|known| reply.int(i64::from(known)));
    }

    /// Lets all nodes forget all scripts. Answers who did not answer.
    pub(super) async fn forget_scripts_everywhere(&self) -> BTreeSet<Arc<str>> {
        self.scripts_elsewhere(ScriptsAsk::Flush).await.1
    }

    /// Does what a peer says of scripts, and answers.
    pub(in crate::cluster) fn serve_scripts(self: &Rc<Self>, version: u16, body: &[u8], reply: ReplyHandle) {
        let scripts = &self.node.scripts;
        let Ok(message) = read_message::<wire::Scripts<'_>>(version, body) else {
            // If the connection is over, nobody waits for that.
            let _ = reply.not_understood();
            return;
        };
        let found;
        let answer = match message.what {
            ScriptsAsk::Load { text } => match scripts.learn(text) {
                true => ScriptsTold::Done,
                false => ScriptsTold::NotDone,
            },
            ScriptsAsk::Find { sha1 } => {
                found = scripts.find(sha1.as_bytes());
                let text = found.as_ref().map(|source| source.text());
                ScriptsTold::Found { text }
            }
            ScriptsAsk::Exist { sha1s } => ScriptsTold::Known {
                known: sha1s
                    .iter()
                    .map(|sha1| scripts.find(sha1.as_bytes()).is_some())
                    .collect(),
            },
            ScriptsAsk::Flush => {
                scripts.flush();
                ScriptsTold::Done
            }
        };
        // Who has gone wants no answer.
        let _ = reply.reply(&ScriptsAnswer { answer });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scripts_are_forgotten_after_a_moment_and_when_there_are_too_many() {
        let unknown = UnknownScripts::default();
        assert!(!unknown.has(b"a", 0));
        assert!(!unknown.note(b"a", 0, 2) && !unknown.note(b"b", 10, 2));
        assert!(unknown.has(b"a", UNKNOWN_US - 1) && !unknown.has(b"a", UNKNOWN_US));
        // The first is over.
        assert!(!unknown.note(b"c", UNKNOWN_US, 2));
        assert!(unknown.has(b"b", UNKNOWN_US) && unknown.has(b"c", UNKNOWN_US));
        assert!(unknown.note(b"d", UNKNOWN_US + 1, 2));
        assert!(!unknown.has(b"c", UNKNOWN_US + 1) && unknown.has(b"d", UNKNOWN_US + 1));
    }
}
