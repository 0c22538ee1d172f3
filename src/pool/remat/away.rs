//! Copies away from device memory, and the storages that have no other, by their next use.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::ids::StorageId;
use crate::liveness::NextUse;
use crate::pool::memory::block::Block;
use crate::pool::submit::PendingWork;

/// The bytes of a storage on one tier, and the work that was submitted on them.
#[derive(Debug, Clone, Copy)]
pub struct TierCopy {
    /// The block that holds them.
    pub block: Block,
    /// The writes that must be done before the bytes are valid.
    pub written: PendingWork,
    /// All work that reads or writes the block.
    pub touched: PendingWork,
}

impl TierCopy {
    /// A copy that is valid once `written` is done.
    pub fn new(block: Block, written: PendingWork) -> Self {
        TierCopy { block, written, touched: written }
    }
}

/// The bytes of a storage away from device memory, in host memory or on the disk or on both.
#[derive(Debug, Clone, Copy, Default)]
pub struct AwayCopy {
    /// In the host tier.
    pub memory: Option<TierCopy>,
    /// In the disk tier.
    pub disk: Option<TierCopy>,
    /// Its key in the lists of absent storages, while it is in one.
    listed: Option<Soonness>,
}

impl AwayCopy {
    /// Copies in either tier.
    pub fn new(memory: Option<TierCopy>, disk: Option<TierCopy>) -> Self {
        AwayCopy { memory, disk, listed: None }
    }

    fn place(&self) -> Place {
        match (self.memory, self.disk) {
            (Some(_), Some(_)) => Place::Both,
            (_, None) => Place::Memory,
            (None, _) => Place::Disk,
        }
    }
}

/// Where the bytes of an absent storage are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In host memory only.
    Memory,
    /// In host memory and on the disk.
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
/// disk tier.
#[derive(Debug, Default)]
pub struct Absent {
    pub is_listed: bool,
    lists: [BTreeSet<(Soonness, StorageId)>; 3],
}

impl Absent {
    /// Lists a storage that is used next, or was used last, then.
    pub fn list(&mut self, id: StorageId, away: &mut AwayCopy, next_use: NextUse, used_ns: u64) {
        if self.is_listed {
            let key = Soonness::of(next_use, used_ns);
            away.listed = Some(key);
            self.lists[away.place() as usize].insert((key, id));
        }
    }

    /// Takes a storage out of its list, if it is in one.
    pub fn unlist(&mut self, id: StorageId, away: &mut AwayCopy) {
        if let Some(key) = away.listed.take() {
            self.lists[away.place() as usize].remove(&(key, id));
        }
    }

    /// Those in a place, the soonest first.
    pub fn in_place(&self, place: Place) -> impl DoubleEndedIterator<Item = (Soonness, StorageId)> {
        self.lists[place as usize].iter().copied()
    }
}
