//! Places of interned parameters: numbers that stay, in pieces of memory that are given back when nothing is left in them.

use std::collections::BTreeSet;

use crate::params::Entry;

/// Places of a piece.
const PIECE: usize = 1024;

/// Entries by number.
#[derive(Default)]
pub(crate) struct Entries {
    pieces: Vec<Piece>,
    /// Pieces with a free place. The lowest is filled first, so that others become empty.
    open: BTreeSet<u32>,
}

#[derive(Default)]
struct Piece {
    /// Those of free places are what was there last.
    entries: Vec<Entry>,
    free: Vec<u16>,
}

impl Piece {
    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.free.capacity() * size_of::<u16>()
    }
}

fn split(id: u32) -> (usize, usize) {
    (id as usize / PIECE, id as usize % PIECE)
}

impl Entries {
    /// Adds an entry, and gives its number.
    pub(crate) fn add(&mut self, entry: Entry) -> u32 {
        let number = match self.open.first() {
            Some(&number) => number,
            None => {
                let number = self.pieces.len() as u32;
                self.pieces.push(Piece::default());
                self.open.insert(number);
                number
            }
        };
        let piece = &mut self.pieces[number as usize];
        let at = match piece.free.pop() {
            Some(at) => {
                piece.entries[usize::from(at)] = entry;
                usize::from(at)
            }
            None => {
                piece.entries.push(entry);
                piece.entries.len() - 1
            }
        };
        if piece.len() == PIECE {
            self.open.remove(&number);
        }
        number * PIECE as u32 + at as u32
    }

    /// Frees a place that is taken.
    pub(crate) fn remove(&mut self, id: u32) {
        let (number, at) = split(id);
        let piece = &mut self.pieces[number];
        debug_assert!(!piece.free.contains(&(at as u16)));
        piece.free.push(at as u16);
        if piece.len() == 0 {
            *piece = Piece::default();
        }
        self.open.insert(number as u32);
    }

    pub(crate) fn get(&self, id: u32) -> &Entry {
        let (number, at) = split(id);
        &self.pieces[number].entries[at]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Entry {
        let (number, at) = split(id);
        &mut self.pieces[number].entries[at]
    }

    /// What is at that place, or was last; nothing if its memory was given back.
    pub(crate) fn find_mut(&mut self, id: u32) -> Option<&mut Entry> {
        let (number, at) = split(id);
        self.pieces[number].entries.get_mut(at)
    }

    /// All entries, and what free places had last.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.pieces.iter_mut().flat_map(|piece| piece.entries.iter_mut())
    }

    /// Memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(Piece::bytes).sum();
        pieces + self.pieces.capacity() * size_of::<Piece>()
    }
}
