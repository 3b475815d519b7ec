//! What a node gossips of itself: few small keys, and what others make of them.
//!
//! | key | what |
//! |---|---|
//! | `member` | what does not change in a life: weight, workers, addresses, protocol versions; JSON |
//! | `state` | how far it is, and how many departures it has atoned for: `ready 0` |
//! | `departures` | whose departures it has seen lately, and how many; JSON |
//! | `files` | hashes of its rules and of its policies: `89ab… cdef…` |
//! | `view` | the hash of its view, whether all its slots are at home in that, and a hash of its slots: `89ab… true 0` |

use super::files::Files;
use chitchat::NodeState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tollgate_cluster::{Heard, Incarnation, Member, MemberState};

pub(super) const MEMBER: &str = "member";
pub(super) const STATE: &str = "state";
pub(super) const DEPARTURES: &str = "departures";
pub(super) const VIEW: &str = "view";
pub(super) const FILES: &str = "files";

/// The longest value that is looked at, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 14;

/// What does not change in a node's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its share of the slots in relation to others.
    pub weight: u32,
    /// How many workers it has.
    pub workers: u16,
    /// Where peers reach it, as `host:port`.
    pub peer: Arc<str>,
    /// What clients are told of its default face, as `host:port`.
    pub listen: Arc<str>,
    /// What clients are told of its redirect face, as `host:port`, if it has one.
    pub redirect_listen: Option<Arc<str>>,
    /// The first and the last version of the peers' protocol that it speaks.
    pub versions: (u16, u16),
}

/// What a node says of its view and of its slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Home {
    /// The view that the other fields speak of.
    pub view_hash: u64,
    /// Whether each slot that the node holds has it as target in that view.
    pub at_home: bool,
    /// A hash of the slots that it holds and their epochs.
    pub slots_hash: u64,
}

/// What was made of a process's keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A member, the hash of its slots, and those of its files if it says them.
    Member(Box<Heard>, u64, Option<Files>),
    /// It has not said enough yet, or it cannot be read.
    Nothing,
    /// It speaks no version of the protocol that this node does.
    OtherVersions(u16, u16),
}

/// Reads what a process says of itself.
pub(super) fn read(state: &NodeState, versions: &RangeInclusive<u16>) -> Said {
    let id = state.chitchat_id();
    let id = Incarnation {
        name: Arc::clone(&id.node_id),
        generation: id.generation_id,
    };
    read_keys(id, |key| state.get(key), versions)
}

fn read_keys<'a>(id: Incarnation, get: impl Fn(&str) -> Option<&'a str>, versions: &RangeInclusive<u16>) -> Said {
    let get = |key| get(key).filter(|value| value.len() <= VALUE_BYTES_MAX);
    let parsed = || {
        let identity: Identity = serde_json::from_str(get(MEMBER)?).ok()?;
        let (state, returns) = read_state(get(STATE)?)?;
        Some((identity, state, returns))
    };
    let Some((identity, state, returns)) = parsed() else {
        return Said::Nothing;
    };
    let (first, last) = identity.versions;
    if first > *versions.end() || last < *versions.start() {
        return Said::OtherVersions(first, last);
    }
    // What is missing has not arrived yet.
    let departures: BTreeMap<Arc<str>, u32> = get(DEPARTURES)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let home = get(VIEW).and_then(read_home).unwrap_or_default();
    let member = Member {
        id,
        state,
        weight: identity.weight,
        workers: identity.workers,
        peer: identity.peer,
        listen: identity.listen,
        redirect_listen: identity.redirect_listen,
    };
    let heard = Heard {
        member,
        returns,
        departures: departures.into_iter().collect(),
        view_hash: home.view_hash,
        at_home: home.at_home,
    };
    Said::Member(Box::new(heard), home.slots_hash, get(FILES).and_then(Files::read))
}

/// The value of `member`.
pub(super) fn write_member(identity: &Identity) -> String {
    // Text and numbers only.
    serde_json::to_string(identity).unwrap_or_default()
}

/// The value of `state`.
pub(super) fn write_state(state: MemberState, returns: u32) -> String {
    let word = match state {
        MemberState::Joining => "joining",
        MemberState::Ready => "ready",
        MemberState::Leaving => "leaving",
    };
    format!("{word} {returns}")
}

fn read_state(text: &str) -> Option<(MemberState, u32)> {
    let (word, returns) = text.split_once(' ')?;
    let state = match word {
        "joining" => MemberState::Joining,
        "ready" => MemberState::Ready,
        "leaving" => MemberState::Leaving,
        _ => return None,
    };
    Some((state, returns.parse().ok()?))
}

/// The value of `departures`.
pub(super) fn write_departures(claims: Vec<(Arc<str>, u32)>) -> String {
    let claims: BTreeMap<Arc<str>, u32> = claims.into_iter().collect();
    serde_json::to_string(&claims).unwrap_or_default()
}

/// The value of `view`.
pub(super) fn write_home(home: Home) -> String {
    format!("{:x} {} {:x}", home.view_hash, home.at_home, home.slots_hash)
}

fn read_home(text: &str) -> Option<Home> {
    let mut words = text.split(' ');
    let view_hash = u64::from_str_radix(words.next()?, 16).ok()?;
    let at_home = words.next()?.parse().ok()?;
    let slots_hash = u64::from_str_radix(words.next()?, 16).ok()?;
    Some(Home {
        view_hash,
        at_home,
        slots_hash,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            weight: 3,
            workers: 4,
            peer: "10.0.0.1:7379".into(),
            listen: "one.example:6379".into(),
            redirect_listen: Some("one.example:6380".into()),
            versions: (1, 2),
        }
    }

    fn keys() -> BTreeMap<&'static str, String> {
        let home = Home {
            view_hash: u64::MAX - 1,
            at_home: true,
            slots_hash: 7,
        };
        BTreeMap::from([
            (MEMBER, write_member(&identity())),
            (STATE, write_state(MemberState::Leaving, 5)),
            (
                DEPARTURES,
                write_departures(vec![("a \"b\" = c".into(), 2), ("é".into(), 1)]),
            ),
            (VIEW, write_home(home)),
            (FILES, FILES_OF_ONE.write()),
        ])
    }

    const FILES_OF_ONE: Files = Files { rules: 5, policies: 6 };

    fn read(keys: &BTreeMap<&'static str, String>, versions: RangeInclusive<u16>) -> Said {
        let id = Incarnation {
            name: "one".into(),
            generation: 9,
        };
        read_keys(id, |key| keys.get(key).map(String::as_str), &versions)
    }

    #[test]
    fn what_is_written_is_read() {
        let Said::Member(heard, slots_hash, files) = read(&keys(), 2..=3) else {
            panic!("no member")
        };
        let Identity {
            weight,
            workers,
            peer,
            listen,
            redirect_listen,
            ..
        } = identity();
        let id = Incarnation {
            name: "one".into(),
            generation: 9,
        };
        let member = Member {
            id,
            state: MemberState::Leaving,
            weight,
            workers,
            peer,
            listen,
            redirect_listen,
        };
        let expected = Heard {
            member,
            returns: 5,
            departures: vec![("a \"b\" = c".into(), 2), ("é".into(), 1)],
            view_hash: u64::MAX - 1,
            at_home: true,
        };
        assert_eq!((*heard, slots_hash, files), (expected, 7, Some(FILES_OF_ONE)));
    }

    #[test]
    fn without_what_says_who_it_is_it_says_nothing() {
        for (key, bad) in [
            (MEMBER, ""),
            (MEMBER, "{}"),
            (MEMBER, "[[[["),
            (STATE, ""),
            (STATE, "ready"),
            (STATE, "asleep 1"),
            (STATE, "ready -1"),
            (STATE, "ready 99999999999"),
        ] {
            let mut keys = keys();
            keys.insert(key, bad.to_owned());
            assert_eq!(read(&keys, 1..=1), Said::Nothing, "{key} = {bad:?}");
        }
        let mut keys = keys();
        keys.insert(MEMBER, format!("{}{}", keys[MEMBER], " ".repeat(VALUE_BYTES_MAX)));
        assert_eq!(read(&keys, 1..=1), Said::Nothing);
    }

    #[test]
    fn what_it_says_of_others_may_be_missing() {
        for bad in ["", "x", "1 2 3", "ff maybe 0", "{\"a\":-1}"] {
            let mut keys = keys();
            keys.insert(DEPARTURES, bad.to_owned());
            keys.insert(VIEW, bad.to_owned());
            keys.insert(FILES, bad.to_owned());
            let Said::Member(heard, slots_hash, files) = read(&keys, 1..=1) else {
                panic!("no member")
            };
            assert_eq!(
                (
                    heard.departures.len(),
                    heard.view_hash,
                    heard.at_home,
                    slots_hash,
                    files
                ),
                (0, 0, false, 0, None),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_process_of_other_versions_is_no_member() {
        assert_eq!(read(&keys(), 3..=4), Said::OtherVersions(1, 2));
        assert_eq!(read(&keys(), 0..=0), Said::OtherVersions(1, 2));
        assert!(matches!(read(&keys(), 0..=1), Said::Member(..)));
    }
}
