//! Which number parameters are interned under. Many small maps, so that none takes long to grow or to shrink.

use rapidhash::RapidHashMap;

use crate::info::PolicyId;
use crate::params::Params;

/// A million in all are four thousand in each.
const MAPS: usize = 256;
/// What a map keeps room for.
const KEPT: usize = 32;

type Map = RapidHashMap<(PolicyId, Params), u32>;

/// The index of a table of parameters.
pub(crate) struct Index {
    maps: Vec<Map>,
    len: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            maps: (0..MAPS).map(|_| Map::default()).collect(),
            len: 0,
        }
    }
}

/// The map for these. Whoever chooses parameters so that all are in one only makes that one large.
fn map_of(policy: PolicyId, params: &Params) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, value: u64| (hash ^ value).wrapping_mul(FACTOR).rotate_left(29);
    let fields = [params.limit, params.window_us, params.burst];
    let hash = fields.into_iter().fold(u64::from(policy.0), mix);
    (hash >> 32) as usize % MAPS
}

impl Index {
    /// What a place of a map takes, in bytes.
    pub(crate) const BYTES_EACH: usize = size_of::<((PolicyId, Params), u32)>() + 1;

    pub(crate) fn get(&self, policy: PolicyId, params: &Params) -> Option<u32> {
        self.maps[map_of(policy, params)].get(&(policy, *params)).copied()
    }

    pub(crate) fn insert(&mut self, policy: PolicyId, params: Params, id: u32) {
        let before = self.maps[map_of(policy, &params)].insert((policy, params), id);
        self.len += usize::from(before.is_none());
    }

    pub(crate) fn remove(&mut self, policy: PolicyId, params: &Params) {
        let map = &mut self.maps[map_of(policy, params)];
        self.len -= usize::from(map.remove(&(policy, *params)).is_some());
        if map.capacity() > KEPT && map.len() < map.capacity() / 4 {
            map.shrink_to((2 * map.len()).max(KEPT / 2));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory that it takes, in bytes: of a map's places seven in eight can be used.
    pub(crate) fn bytes(&self) -> usize {
        let places: usize = self.maps.iter().map(|map| map.capacity() / 7 * 8).sum();
        places * Self::BYTES_EACH + self.maps.capacity() * size_of::<Map>()
    }
}
