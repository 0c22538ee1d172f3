//! Copies away from device memory, and the storages that have no other, by their next use.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::ids::StorageId;
use crate::engine::{Mark, Tier};
use crate::liveness::NextUse;
use crate::pool::memory::block::Block;
use crate::pool::submit::PendingWork;

/// The bytes of a storage on one tier, and the work that was submitted on them.
#[derive(Debug, Clone, Copy)]
pub struct TierCopy {
    /// The block that holds them.
    pub block: Block,
    /// The work that makes the bytes valid, if any is to be waited for.
    pub written: Mark,
    /// All work that reads or writes the block.
    pub touched: PendingWork,
}

impl TierCopy {
    /// A copy that is valid once `written` is done.
    pub fn new(block: Block, written: Mark) -> Self {
        TierCopy { block, written, touched: written.into() }
    }

    /// A block that has still to be written, after the work that touches it.
    pub fn unwritten(block: Block, touched: PendingWork) -> Self {
        TierCopy { block, written: Mark::default(), touched }
    }
}

/// The copies of a storage away from device memory, at most one in each tier.
#[derive(Debug, Clone, Copy, Default)]
pub struct AwayCopies {
    copies: [Option<TierCopy>; Tier::AWAY.len()],
    /// The key in the lists of absent storages, while it is in one.
    listed: Option<Soonness>,
}

/// The index of a tier away from device memory.
fn index(tier: Tier) -> usize {
    tier as usize - Tier::AWAY[0] as usize
}

impl AwayCopies {
    /// The copy in a tier.
    pub fn get(&self, tier: Tier) -> Option<TierCopy> {
        self.copies[index(tier)]
    }

    /// Replaces the copy in a tier, and returns the one before.
    pub fn replace(&mut self, tier: Tier, copy: Option<TierCopy>) -> Option<TierCopy> {
        std::mem::replace(&mut self.copies[index(tier)], copy)
    }

    /// Notes work that reads the copy in a tier.
    pub fn touch(&mut self, tier: Tier, mark: Mark) {
        if let Some(copy) = &mut self.copies[index(tier)] {
            copy.touched = copy.touched.with(mark);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.copies.iter().all(Option::is_none)
    }

    /// The list that an absent storage belongs in. One in another device's memory needs no place in host memory.
    fn place(&self) -> Option<Place> {
        let [in_memory, on_peer, on_disk] = self.copies.map(|copy| copy.is_some());
        match (in_memory, on_peer || on_disk) {
            (true, false) => Some(Place::Memory),
            (true, true) => Some(Place::Both),
            (false, _) if on_peer => None,
            (false, _) => Some(Place::Disk),
        }
    }
}

/// Where the bytes of an absent storage are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In host memory only.
    Memory,
    /// In host memory, and on the disk or another device.
    Both,
    /// On the disk only.
    Disk,
}

/// How soon a storage is used: known uses first, then the most recently used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Soonness {
    At(u64),
    Unknown(Reverse<u64>),
    Never,
}

impl Soonness {
    fn of(next_use: NextUse, used_ns: u64) -> Self {
        match next_use {
            NextUse::At(op) => Soonness::At(op),
            NextUse::Unknown => Soonness::Unknown(Reverse(used_ns)),
            NextUse::Never => Soonness::Never,
        }
    }
}

/// The storages that are only away from device memory, by place and by next use, the soonest first. They are listed if there is a
/// tier behind host memory.
#[derive(Debug, Default)]
pub struct Absent {
    pub is_listed: bool,
    lists: [BTreeSet<(Soonness, StorageId)>; 3],
}

impl Absent {
    /// Lists a storage that is used next, or was used last, then.
    pub fn list(&mut self, id: StorageId, away: &mut AwayCopies, next_use: NextUse, used_ns: u64) {
        if let Some(place) = away.place().filter(|_| self.is_listed) {
            let key = Soonness::of(next_use, used_ns);
            away.listed = Some(key);
            self.lists[place as usize].insert((key, id));
        }
    }

    /// Takes a storage out of its list, if it is in one.
    pub fn unlist(&mut self, id: StorageId, away: &mut AwayCopies) {
        if let Some((key, place)) = away.listed.take().zip(away.place()) {
            self.lists[place as usize].remove(&(key, id));
        }
    }

    /// Those in a place, the soonest first.
    pub fn in_place(&self, place: Place) -> impl DoubleEndedIterator<Item = (Soonness, StorageId)> {
        self.lists[place as usize].iter().copied()
    }
}
