//! The peers that a machine knows, and by which links it reaches them.

use crate::member::Incarnation;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The number of a peer at this machine. It stays with a name for as long as anything refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerIx(pub u16);

/// This node itself.
pub(super) const ME: PeerIx = PeerIx(0);

#[derive(Debug)]
pub(super) struct Peer {
    /// The life that counts.
    pub id: Incarnation,
    /// Whether the view has this life of it.
    pub member: bool,
    /// Whether it is a member that gives its slots away.
    pub leaving: bool,
    /// Whether the view once had this life and has lost it.
    pub removed: bool,
    /// When it lost it.
    pub removed_us: u64,
    /// When this node last had a message of it.
    pub heard_us: u64,
    /// Since when the view has lacked it, if it did not leave by itself: it may be cut off and go on, or have another view already.
    pub missing_since_us: Option<u64>,
}

/// A connection to one worker of a peer.
#[derive(Debug)]
pub(super) struct Link {
    /// The slots that belong to this machine and to that worker.
    pub slots: Range<u16>,
    /// How often in a row its digest was another than this machine's.
    pub digests_wrong: u8,
    /// The highest number of a question that it has answered.
    pub answered: u64,
    /// When the last ping was sent that was answered.
    pub pinged_us: u64,
}

#[derive(Debug)]
pub(super) struct Peers {
    list: Vec<Peer>,
    by_name: BTreeMap<Arc<str>, PeerIx>,
    pub links: BTreeMap<(PeerIx, u16), Link>,
}

/// What was found when looking for a life of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// It is the one that counts.
    Current(PeerIx),
    /// There has been a later one.
    Over,
    /// It is later than the one before, which is over now.
    New(PeerIx),
}

impl Peer {
    /// A life that the view does not have yet.
    fn new(id: Incarnation, now_us: u64) -> Self {
        Self {
            id,
            member: false,
            leaving: false,
            removed: false,
            removed_us: 0,
            heard_us: 0,
            missing_since_us: Some(now_us),
        }
    }
}

impl Peers {
    pub fn new(me: Incarnation) -> Self {
        let by_name = BTreeMap::from([(me.name.clone(), ME)]);
        let me = Peer {
            missing_since_us: None,
            ..Peer::new(me, 0)
        };
        Self {
            list: vec![me],
            by_name,
            links: BTreeMap::new(),
        }
    }

    pub fn get(&self, peer: PeerIx) -> &Peer {
        &self.list[usize::from(peer.0)]
    }

    pub fn get_mut(&mut self, peer: PeerIx) -> &mut Peer {
        &mut self.list[usize::from(peer.0)]
    }

    /// All peers but this node.
    pub fn others(&self) -> impl Iterator<Item = (PeerIx, &Peer)> {
        self.list
            .iter()
            .enumerate()
            .skip(1)
            .map(|(i, peer)| (PeerIx(i as u16), peer))
    }

    /// Finds a life of a peer, and adds what is new. This node's own name has only the life that it is in.
    pub fn meet(&mut self, id: &Incarnation, now_us: u64) -> Life {
        if let Some(&peer) = self.by_name.get(&id.name) {
            let known = self.get_mut(peer);
            return match id.generation.cmp(&known.id.generation) {
                std::cmp::Ordering::Equal => Life::Current(peer),
                std::cmp::Ordering::Less => Life::Over,
                std::cmp::Ordering::Greater if peer == ME => Life::Over,
                std::cmp::Ordering::Greater => {
                    *known = Peer::new(id.clone(), now_us);
                    Life::New(peer)
                }
            };
        }
        let peer = Peer::new(id.clone(), now_us);
        // A name is reused only when nothing refers to its number any more: see `forget`.
        let ix = match self.list.iter().position(|p| p.id.name.is_empty()) {
            Some(free) => {
                self.list[free] = peer;
                PeerIx(free as u16)
            }
            None if self.list.len() < usize::from(u16::MAX) => {
                self.list.push(peer);
                PeerIx((self.list.len() - 1) as u16)
            }
            None => return Life::Over,
        };
        self.by_name.insert(id.name.clone(), ix);
        Life::Current(ix)
    }

    /// Makes room: `used` says which numbers anything else still refers to. Who has been missing since a time will not come back.
    pub fn forget(&mut self, missing_before_us: u64, used: impl Fn(PeerIx) -> bool) {
        for i in 1..self.list.len() {
            let peer = PeerIx(i as u16);
            let known = &self.list[i];
            let linked = self.links.range((peer, 0)..=(peer, u16::MAX)).next().is_some();
            let expired = known
                .missing_since_us
                .is_none_or(|since_us| since_us < missing_before_us);
            if !known.id.name.is_empty() && !known.member && expired && !linked && !used(peer) {
                self.by_name.remove(&known.id.name);
                self.list[i].id = Incarnation {
                    name: "".into(),
                    generation: 0,
                };
            }
        }
    }

    /// The worker of `peer` that has `slot`, if there is a link to it.
    pub fn link_of(&self, peer: PeerIx, slot: u16) -> Option<u16> {
        let links = self.links.range((peer, 0)..=(peer, u16::MAX));
        links
            .filter(|(_, link)| link.slots.contains(&slot))
            .map(|(&(_, worker), _)| worker)
            .next()
    }

    /// The life of that name that counts.
    pub fn id(&self, name: &str) -> Option<Incarnation> {
        self.by_name.get(name).map(|&peer| self.get(peer).id.clone())
    }

    pub fn name(&self, peer: PeerIx) -> Arc<str> {
        self.get(peer).id.name.clone()
    }
}
