//! Walking over a keyspace, and picking from it.

use crate::changes::Role;
use crate::entry::{Entry, EntryView};
use crate::expiry::Expiry;
use crate::key::{Keyspace, mix};
use crate::slot::SLOTS;
use crate::slot_map::SlotMap;
use crate::store::{Place, Store, Table, view_of};

/// The most slots that one step of a scan looks at.
pub const SCAN_SLOTS_PER_STEP: usize = 1024;

/// How many slots are tried for one that has an entry before the next in order is taken.
const RANDOM_TRIES: u64 = 32;

/// Entries looked at to find one that is a bucket, when memory is wanted.
const SAMPLES_FOR_A_BUCKET: usize = 16;

/// Bits of a cursor below the slot.
const POSITION_BITS: u32 = 48;
const POSITION_END: u64 = 1 << POSITION_BITS;

/// Positions are multiples of this: the low 9 bits of a cursor are 0. Clients in JavaScript and Lua read cursors as
/// doubles; what is left without these bits fits the 53 that a double holds, and no step is lost by leaving them out.
const POSITION_STEP: u64 = 1 << 9;

/// As [`POSITION_STEP`], in a scan of one slot: what names a place in it has the top 31 bits of a hash, which leaves room for more
/// in a cursor. Steps end between two such places, so that nothing comes twice.
const SLOT_POSITION_STEP: u64 = 1 << 17;

/// The top bits of a hash, as a position that is a multiple of `step`.
fn position_of(hash: u64, step: u64) -> u64 {
    (hash >> (64 - POSITION_BITS)) & !(step - 1)
}

/// Where a scan goes on: a slot, and the top 39 bits of a hash in it, in 62 bits of which the low 9 are 0. It stays good
/// whatever happens to the store, and for any store that has the slot. 0 is the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(u64);

impl Cursor {
    /// The start of the first slot.
    pub const START: Cursor = Cursor(0);

    /// The start of a slot.
    pub fn at_slot(slot: u16) -> Cursor {
        Cursor(u64::from(slot) << POSITION_BITS)
    }

    /// The cursor that [`Cursor::to_u64`] gave, or the last before that number; `None` beyond the last slot.
    pub fn from_u64(value: u64) -> Option<Cursor> {
        (value >> POSITION_BITS < u64::from(SLOTS)).then_some(Cursor(value & !(POSITION_STEP - 1)))
    }

    /// As a number.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// The slot in which the scan goes on.
    pub fn slot(self) -> u16 {
        (self.0 >> POSITION_BITS) as u16
    }

    fn position(self) -> u64 {
        self.0 % POSITION_END
    }

    fn new(slot: u16, position: u64) -> Cursor {
        Cursor(u64::from(slot) << POSITION_BITS | position)
    }
}

impl Store {
    /// One step of a scan of the slots that are held: shows about `want` entries from `cursor` on (more only when hashes are equal in 39 bits), and
    /// says where to go on, or `None` after the last slot of this store.
    ///
    /// An entry that is there from the first step to the last is shown at least once, whatever else is put or removed in
    /// between. A step looks at no more than [`SCAN_SLOTS_PER_STEP`] slots and, beyond the pages it shows whole, one page.
    pub fn scan(
        &self,
        keyspace: Keyspace,
        cursor: Cursor,
        want: usize,
        show: &mut dyn FnMut(EntryView),
    ) -> Option<Cursor> {
        let index = keyspace.index()?;
        let table = &self.tables[index];
        let slots = self.slots();
        if table.held() == 0 || slots.is_empty() {
            return None;
        }
        let mut cursor = cursor.max(Cursor::at_slot(slots.start));
        let mut want = want.max(1);
        for _ in 0..SCAN_SLOTS_PER_STEP {
            let slot = cursor.slot();
            if slot >= slots.end {
                return None;
            }
            let local = usize::from(slot - slots.start);
            let map = &table.maps[local];
            let mut position = cursor.position();
            let is_held = self.metas[local].role == Role::Held;
            loop {
                if !is_held {
                    break;
                }
                let next = self.scan_page((table, map), (position, POSITION_STEP), &mut want, &mut |entry| {
                    show(view_of(self.base, index as u8, (slot, Role::Held), entry));
                });
                match next {
                    Some(next) if want == 0 => return Some(Cursor::new(slot, next)),
                    Some(next) => position = next,
                    None => break,
                }
            }
            cursor = match slot + 1 {
                end if end == slots.end => return None,
                next => Cursor::at_slot(next),
            };
            if want == 0 {
                break;
            }
        }
        Some(cursor)
    }

    /// As [`Store::scan`], of the slot of the cursor alone, whatever the store is to it; of the position in the cursor the top 31 bits
    /// count. `None` at its end.
    pub fn scan_slot(
        &self,
        keyspace: Keyspace,
        cursor: Cursor,
        want: usize,
        show: &mut dyn FnMut(EntryView),
    ) -> Option<Cursor> {
        let index = keyspace.index()?;
        let slot = cursor.slot();
        let role = self.slot(slot)?.role;
        let table = &self.tables[index];
        let map = table.maps.get(self.local(slot)).filter(|map| map.live() > 0)?;
        let mut want = want.max(1);
        let mut position = cursor.position() & !(SLOT_POSITION_STEP - 1);
        while want > 0 {
            position = self.scan_page((table, map), (position, SLOT_POSITION_STEP), &mut want, &mut |entry| {
                show(view_of(self.base, index as u8, (slot, role), entry));
            })?;
        }
        Some(Cursor::new(slot, position))
    }

    /// Shows up to `want` entries of the page that has `position`, in the order of their hashes. Says where the rest
    /// starts, in this page or the next of the map.
    fn scan_page(
        &self,
        (table, map): (&Table, &SlotMap),
        (position, step): (u64, u64),
        want: &mut usize,
        show: &mut dyn FnMut(crate::entry::EntryRef),
    ) -> Option<u64> {
        let hash = position << (64 - POSITION_BITS);
        let head = map.page(map.page_of(hash));
        let page = head.view(&table.arena);
        let (start, end) = map.hash_range(hash);
        let end = end.map(|end| position_of(end, step));
        if position == position_of(start, step) && usize::from(head.live) <= *want {
            *want -= usize::from(head.live);
            page.spots().for_each(|spot| show(page.entry(spot.offset)));
            return end;
        }
        let mut rest: Vec<(u64, u16)> = page
            .spots()
            .map(|spot| {
                (
                    position_of(page.entry(spot.offset).hash(&self.hasher), step),
                    spot.offset,
                )
            })
            .filter(|&(at, _)| at >= position)
            .collect();
        if rest.len() <= *want {
            *want -= rest.len();
            rest.iter().for_each(|&(_, offset)| show(page.entry(offset)));
            return end;
        }
        let (_, &mut (last, _), _) = rest.select_nth_unstable(*want - 1);
        rest.iter()
            .filter(|&&(at, _)| at <= last)
            .for_each(|&(_, offset)| show(page.entry(offset)));
        *want = 0;
        let next = last + step;
        (next < POSITION_END).then_some(next)
    }

    /// An entry of a keyspace, picked by the random number: a slot first, then one in it, so entries of full slots are
    /// picked a little less often. `None` if there is none.
    pub fn random(&self, keyspace: Keyspace, random: u64) -> Option<EntryView<'_>> {
        let place = self.random_place(keyspace.index()?, random)?;
        Some(self.view(place))
    }

    fn random_place(&self, keyspace: usize, random: u64) -> Option<Place> {
        let table = &self.tables[keyspace];
        if table.held() == 0 {
            return None;
        }
        let slots = table.maps.len();
        let pick = |random: u64| ((u128::from(random) * slots as u128) >> 64) as usize;
        let tried = (0..RANDOM_TRIES).map(|try_number| pick(mix(random ^ try_number)));
        let start = pick(mix(random));
        let local = tried
            .chain(start..slots)
            .chain(0..start)
            .find(|&local| table.maps[local].live() > 0 && self.metas[local].role == Role::Held)?;
        let map = &table.maps[local];
        // A directory may have empty pages: some tries, then in order.
        let tries = (0..RANDOM_TRIES).map(|try_number| map.page_of(mix(random.rotate_left(32) ^ try_number)));
        let all = 0..map.pages() as u32;
        let page = tries.chain(all).find(|&page| map.page(page).live > 0)?;
        let spot = table.page(local, page).random(mix(random.rotate_left(16)))?;
        Some(self.place_at(keyspace, local, page, spot))
    }

    /// Looks for memory at `samples` random buckets of all keyspaces. A page of one of them that can be smaller is made so: what
    /// was dropped before has left room there, which comes free only now. Else one of the entries is to be dropped: that of the
    /// bucket which is nearest to being full, which is the cheapest to lose. `None` if no bucket was found.
    pub fn relieve(&mut self, random: u64, samples: usize) -> Option<Relief> {
        let mut cheapest: Option<(Expiry, Place)> = None;
        let mut buckets = 0;
        for sample in 0..(samples * SAMPLES_FOR_A_BUCKET) as u64 {
            let place = self.sample(mix(random ^ mix(sample)))?;
            if self.compact_at(place) {
                return Some(Relief::Compacted);
            }
            // A value is not a bucket: to lose it is not cheap.
            let Entry::Bucket(bucket) = self.view(place).entry else {
                continue;
            };
            let expiry = bucket.expiry;
            if cheapest.is_none_or(|(least, _)| expiry < least) {
                cheapest = Some((expiry, place));
            }
            buckets += 1;
            if buckets == samples {
                break;
            }
        }
        cheapest.map(|(_, place)| Relief::Evict(place))
    }

    /// An entry of all keyspaces, each picked as often as it has entries.
    fn sample(&self, random: u64) -> Option<Place> {
        let all: usize = self.tables.iter().map(Table::held).sum();
        let mut at = ((u128::from(random) * all as u128) >> 64) as usize;
        let keyspace = self.tables.iter().position(|table| {
            let here = at < table.held();
            at = at.saturating_sub(table.held());
            here
        })?;
        self.random_place(keyspace, mix(random))
    }
}

/// What [`Store::relieve`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// A page is smaller now. Places are invalid.
    Compacted,
    /// This entry is to be dropped; nothing has changed yet.
    Evict(Place),
}
