//! Copies away from device memory, and the storages that have no other, by their next use.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::ids::StorageId;
use super::storage::{Access, Storages, TierCopy};
use crate::liveness::NextUse;

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
    fn of(access: &Access) -> Self {
        match access.next_use {
            NextUse::At(op) => Soonness::At(op),
            NextUse::Unknown => Soonness::Unknown(Reverse(access.used_ns)),
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
    /// Those in a place, the soonest first.
    pub fn in_place(&self, place: Place) -> impl DoubleEndedIterator<Item = (Soonness, StorageId)> {
        self.lists[place as usize].iter().copied()
    }
}

impl Storages {
    /// Replaces the copies away from device memory.
    pub fn set_away(&mut self, id: StorageId, away: AwayCopy) -> AwayCopy {
        self.unlist_absent(id);
        let before = self[id].copies.away.take();
        if away.memory.is_some() || away.disk.is_some() {
            self[id].copies.away = Some(Box::new(away));
            self.list_absent(id);
        } else if before.is_some() && !self[id].stored() {
            self.changed(id);
        }
        before.map_or(AwayCopy::default(), |before| *before)
    }

    /// Lists a storage, if it is absent.
    pub(super) fn list_absent(&mut self, id: StorageId) {
        if !self.absent.is_listed || self[id].copies.device.is_some() {
            return;
        }
        let key = Soonness::of(&self[id].access);
        let Some(away) = &mut self[id].copies.away else { return };
        away.listed = Some(key);
        let place = away.place();
        self.absent.lists[place as usize].insert((key, id));
    }

    pub(super) fn unlist_absent(&mut self, id: StorageId) {
        let Some(away) = &mut self[id].copies.away else { return };
        if let Some(key) = away.listed.take() {
            let place = away.place();
            self.absent.lists[place as usize].remove(&(key, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::memory::block::Block;
    use crate::pool::submit::PendingWork;
    use crate::schedule::StreamId;

    #[test]
    fn absent_storages_are_listed_by_their_next_use() {
        let mut storages = Storages::default();
        storages.absent.is_listed = true;
        let copy = TierCopy::new(Block::default(), PendingWork::default());
        let uses = [NextUse::Unknown, NextUse::At(7), NextUse::Never, NextUse::At(3), NextUse::Unknown];
        let ids = uses.map(|next_use| {
            let id = storages.insert(256, "test", StreamId::default(), 0);
            storages[id].access.next_use = next_use;
            storages[id].access.used_ns = u64::from(id.0);
            storages.set_away(id, AwayCopy::new(Some(copy), None));
            id
        });
        let listed = |storages: &Storages, place| -> Vec<u32> {
            storages.absent.in_place(place).map(|(_, id)| id.0).collect()
        };
        assert_eq!(listed(&storages, Place::Memory), [3, 1, 4, 0, 2]);
        storages.set_away(ids[1], AwayCopy::new(Some(copy), Some(copy)));
        storages.set_away(ids[4], AwayCopy::new(None, Some(copy)));
        storages.set_device(ids[0], copy, 0);
        assert_eq!(listed(&storages, Place::Memory), [3, 2]);
        assert_eq!((listed(&storages, Place::Both), listed(&storages, Place::Disk)), (vec![1], vec![4]));
        storages.take_device(ids[0]);
        storages.set_away(ids[2], AwayCopy::default());
        assert_eq!(listed(&storages, Place::Memory), [3, 0]);
    }
}
