//! Where a command of the redirecting face goes: it is run as on any face, or its client is told where to go.

use crate::cluster::Route;
use crate::node::Place;
use crate::turn::Turn;
use tollgate_cluster::circuit::CircuitState;
use tollgate_commands::{CommandError, ReplyMode, Run, Session, Spec, Transaction, WorkerCommand};
use tollgate_protocol::{Request, parse_integer};
use tollgate_store::slot_of;

use super::split_address;

impl Turn<'_> {
    /// As [`Turn::run`], on the redirecting face.
    pub async fn run_redirecting(&mut self, session: &mut Session, request: Request<'_>) {
        let Some(error) = self.find_elsewhere(session, request).await else {
            return self.run(session, request).await;
        };
        let is_exec = request.arg(0).eq_ignore_ascii_case(b"exec");
        if is_exec {
            (session.transaction, session.watching) = (None, None);
            session.note_change();
        } else if let Some(transaction) = &mut session.transaction {
            transaction.is_broken = true;
        }
        if session.replies != ReplyMode::On {
            return session.next_reply();
        }
        self.stop_joining().await;
        let env = self.env(session);
        self.refuse(&env, &error).await;
    }

    /// What to tell a client whose command is not for this node; nothing if it is, or is not well formed.
    async fn find_elsewhere(&mut self, session: &Session, request: Request<'_>) -> Option<CommandError> {
        let spec = self.resolve(request)?;
        session.may_run(spec).ok()?;
        if copies_to_other_db(spec, request) {
            return Some(CommandError::Refused(
                "Copying to another database is not allowed in cluster mode",
            ));
        }
        let slot = match (spec.run, &session.transaction) {
            (Run::Worker(WorkerCommand::Exec), Some(transaction)) if !transaction.is_broken => {
                slot_of_transaction(transaction)
            }
            _ => slot_of_request(spec, request),
        };
        let slot = match slot {
            Ok(slot) => slot?,
            Err(CrossSlot) => return Some(CommandError::CrossSlot),
        };
        self.worker().node.cluster.as_ref()?;
        if self.worker().node.place(slot) == Place::Closing {
            // It is here or there in a moment. What this connection has queued must not be what it waits for.
            self.stop_joining().await;
            let env = self.env(session);
            self.wait_for_slot(&env, spec, slot).await;
        }
        self.moved(slot)
    }

    /// Where clients find a slot, if they can be sent there.
    fn moved(&self, slot: u16) -> Option<CommandError> {
        let worker = self.worker();
        let (cluster, links) = (worker.node.cluster.as_ref()?, worker.links.as_ref()?);
        let Route::Peer(number) = cluster.routes.get(slot) else {
            return None;
        };
        let name = cluster.name_of(number)?;
        // One that does not answer is of no use to a client: what can be done in its place is done here.
        if matches!(
            links.circuits.borrow().state(&name),
            CircuitState::Open | CircuitState::Probing
        ) {
            return None;
        }
        let view = links.view.borrow();
        let (host, port) = split_address(view.member(&name)?.redirect_listen.as_deref()?);
        let address = format!("{host}:{port}");
        Some(CommandError::Moved { slot, address })
    }
}

/// Keys, or channels, of several slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CrossSlot;

/// Whether it is COPY with another database than the one that a cluster has.
fn copies_to_other_db(spec: &Spec, request: Request<'_>) -> bool {
    let mut at = 3;
    while spec.name == "copy" && at < request.len() {
        if request.arg(at).eq_ignore_ascii_case(b"db") {
            at += 1;
            let db = request.get(at).and_then(parse_integer);
            if db.is_some_and(|db| db != 0) {
                return true;
            }
        }
        at += 1;
    }
    false
}

/// The slot of all keys, or channels of slots, that a request names.
fn slot_of_request(spec: &Spec, request: Request<'_>) -> Result<Option<u16>, CrossSlot> {
    let keys = spec.key_positions(request);
    one_slot(
        keys.chain(spec.channel_positions(request))
            .map(|position| slot_of(request.arg(position))),
    )
}

/// The slot of all keys of a transaction.
fn slot_of_transaction(transaction: &Transaction) -> Result<Option<u16>, CrossSlot> {
    let mut slot = None;
    let mut index = 0;
    while let Some((spec, _, _, request)) = transaction.commands.get(index) {
        index += 1;
        let own = slot_of_request(spec, request)?;
        slot = one_slot(slot.into_iter().chain(own))?;
    }
    Ok(slot)
}

fn one_slot(mut slots: impl Iterator<Item = u16>) -> Result<Option<u16>, CrossSlot> {
    let Some(first) = slots.next() else { return Ok(None) };
    match slots.all(|slot| slot == first) {
        true => Ok(Some(first)),
        false => Err(CrossSlot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_commands::{CommandTable, Face, LastCommand};
    use tollgate_protocol::{Progress, ScanLimits, Scanner};

    fn with<T>(line: &str, act: impl FnOnce(&'static Spec, Request<'_>) -> T) -> T {
        let mut scanner = Scanner::new(ScanLimits::default());
        let bytes = format!("{line}\r\n");
        assert!(matches!(scanner.next(bytes.as_bytes()), Ok(Progress::Request { .. })));
        let request = scanner.request(bytes.as_bytes());
        let table = CommandTable::of(Face::Redirect);
        let (spec, _) = table.resolve(request, &mut LastCommand::default()).unwrap();
        act(spec, request)
    }

    #[test]
    fn the_slot_is_that_of_all_keys_and_channels() {
        let slot = |line: &str| with(line, slot_of_request);
        let of_a = Ok(Some(slot_of(b"a")));
        for line in [
            "GET a",
            "MGET a a{a} {a}b",
            "DEL {a}1 {a}2",
            "RL.CHECK a LIMIT 1 PER 1s",
            "CL.THROTTLE a 1 1 1",
            "EVAL x 2 a {a}b c",
            "FCALL f 1 a b",
            "SSUBSCRIBE a {a}b",
            "SUNSUBSCRIBE a",
            "SPUBLISH a b",
            "BLPOP a {a}b 1",
            "BLMPOP 0 2 a {a}b LEFT",
            "WATCH a",
            "OBJECT ENCODING a",
        ] {
            assert_eq!(slot(line), of_a, "{line}");
        }
        for line in [
            "PING",
            "EVAL x 0 a b",
            "EVAL x 9 a b",
            "SUNSUBSCRIBE",
            "SUBSCRIBE a b",
            "PUBLISH a b",
            "SCAN 0",
            "EXEC",
            "SCRIPT LOAD x",
        ] {
            assert_eq!(slot(line), Ok(None), "{line}");
        }
        for line in [
            "MGET a b",
            "RENAME a b",
            "EVAL x 2 a b",
            "SSUBSCRIBE a b",
            "BLPOP a b 1",
            "MSET a 1 b 2",
            "EXISTS a b",
        ] {
            assert_eq!(slot(line), Err(CrossSlot), "{line}");
        }
    }

    #[test]
    fn a_cluster_has_one_database() {
        let copies = |line: &str| with(line, copies_to_other_db);
        assert!(copies("COPY a {a}b DB 1"));
        assert!(copies("COPY a {a}b REPLACE db 15"));
        for line in [
            "COPY a {a}b",
            "COPY a {a}b DB 0 REPLACE",
            "COPY a {a}b DB",
            "COPY a {a}b DB x",
            "MGET a b c db 1",
        ] {
            assert!(!copies(line), "{line}");
        }
    }
}
