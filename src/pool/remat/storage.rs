//! The records of storages, and the resident storages in order of use.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use super::away::{Absent, AwayCopies, TierCopy};
use super::components::Member;
use super::ids::RecipeId;
use super::remembered_cost::{Changes, RememberedCost};
use super::table::Table;
use crate::engine::{EngineError, Mark, Tier};
use crate::liveness::{NextUse, Touch};
use crate::op::Dtype;
use crate::pool::remat::ids::StorageId;
use crate::schedule::{ScheduledInterval, StreamId};
use crate::trace::Made;

/// The error of the failed launch from which a storage descends.
pub type Cause = Arc<EngineError>;

/// How many consumers are kept within the record, without an allocation.
const FEW_CONSUMERS: usize = 4;

/// Where a storage's bytes are.
#[derive(Debug, Default)]
pub struct Copies {
    /// In device memory.
    pub device: Option<TierCopy>,
    /// Away from device memory. If there is a `device` copy too, the storage is clean.
    pub away: Option<Box<AwayCopies>>,
    /// The overflow of an encoded form: a block of the host tier for the rows that find no room in the form. A copy of the form
    /// itself is in `away`.
    pub overflow: Option<Box<TierCopy>>,
}

impl Copies {
    /// The copy in a tier away from device memory.
    pub fn in_tier(&self, tier: Tier) -> Option<TierCopy> {
        self.away.as_ref().and_then(|away| away.get(tier))
    }
}

/// How a storage is rematerialized, and which recipes read it.
#[derive(Debug, Default)]
pub struct Lineage {
    /// The recipe that makes it; `None` for a source.
    pub recipe: Option<RecipeId>,
    /// The recipes that read it.
    pub consumers: SmallVec<[RecipeId; FEW_CONSUMERS]>,
    /// The storage with the signs of its values, if those are kept in place of its bytes.
    pub signs: Option<StorageId>,
    /// The length of the longest chain of recipes from a source to this storage.
    pub depth: u32,
    /// Its place in the components of evicted storages, while it is evicted and the policy asks for components.
    pub member: Option<Member>,
    /// The remembered cost of its evicted neighbourhood.
    pub neighbourhood_cost: RememberedCost,
}

/// Who needs a storage.
#[derive(Debug, Default)]
pub struct Uses {
    /// Whether the program holds a handle.
    pub held: bool,
    /// The number of recipes of evicted storages that will read it.
    pub claims: u32,
    /// The number of uses by the op that acquires memory now. While there are any, its bytes stay stored, and only emptying all of
    /// device memory offloads it.
    pub pins: u32,
    /// The number of accesses of the program to the host copy. While there are any, the host copy stays.
    pub host_pins: u32,
    /// The number of recipes of rematerializations under way that will read it. While there are any, it is not dropped, unless
    /// nothing else can leave.
    pub wanted: u32,
}

/// When a storage is used.
#[derive(Debug, Default)]
pub struct Access {
    /// The stream whose op made it or touched it last.
    pub stream: StreamId,
    /// Where in its stream it was touched last.
    pub touch: Touch,
    /// When its stream will use it next, counted in ops of the stream.
    pub next_use: NextUse,
    /// The interval of the schedule that it is in.
    pub interval: Option<ScheduledInterval>,
    /// When an op last used it, as the sum of the predicted times of all ops before.
    pub used_ns: u64,
    /// Whether it was prefetched and no op has used it since.
    pub prefetched: bool,
    /// When the host copy of a resident storage is complete, as the sum of the predicted times of all ops before.
    pub clean_at_ns: u64,
}

/// A storage's place in the lists of resident storages.
#[derive(Debug, Default)]
struct Recency {
    /// The number of checkpointed scopes that it was made in and is no result of. While there are any, it is dropped before
    /// other storages leave.
    scopes: u32,
    /// The number of its last use among all uses of storages.
    used_as: u64,
    newer: Option<StorageId>,
    older: Option<StorageId>,
}

/// The record of one storage, whose value never changes.
///
/// A storage is *stored* if its bytes are on a tier, and *active* if a handle or a claim needs them. One that is not active is not
/// stored. One that is active but not stored can be rematerialized, and its recipe claims its inputs. See
/// [`Graph`](super::recipe::Graph).
#[derive(Debug)]
pub struct Storage {
    /// The number of storages that were made before it.
    pub number: u64,
    /// The exact size. The sizes of blocks are rounded up.
    pub size_bytes: usize,
    /// The element type, if an op made it.
    pub dtype: Option<Dtype>,
    /// The name of the op that made it, for reports.
    pub made_by: &'static str,
    pub copies: Copies,
    pub lineage: Lineage,
    pub uses: Uses,
    pub access: Access,
    /// The error of a failed launch from which it descends, if there is one. Then its values mean nothing.
    pub failure: Option<Cause>,
    recency: Recency,
}

impl Storage {
    /// Whether the bytes are on some tier.
    pub fn stored(&self) -> bool {
        self.copies.device.is_some() || self.copies.away.is_some()
    }

    /// Whether the bytes are needed.
    pub fn active(&self) -> bool {
        self.uses.held || self.uses.claims > 0
    }

    /// The number of checkpointed scopes that it was made in and is no result of.
    pub fn scopes(&self) -> u32 {
        self.recency.scopes
    }

    /// A number that is greater the later the storage was used or came back. No two resident storages have the same.
    pub fn recency(&self) -> u64 {
        self.recency.used_as
    }

    /// Whether it is to be dropped before other storages leave.
    pub fn is_recomputed_first(&self) -> bool {
        self.recency.scopes > 0
    }
}

/// Which resident storages are visited.
#[derive(Debug, Default, Clone, Copy)]
pub struct ResidentFilter {
    /// Only storages of at least so many bytes are visited.
    pub min_bytes: usize,
    /// Whether only storages that are to be dropped before others are visited.
    pub recomputed_first: bool,
}

/// All records, and the resident storages in order of use.
#[derive(Debug, Default)]
pub struct Storages {
    records: Table<Storage>,
    made: u64,
    /// The resident storages in order of use, by size class. The second element has those that are dropped before others.
    lists: [Lists; 2],
    /// How many times a storage became the most recently used.
    uses_so_far: u64,
    /// Where the resident storages lie: slab, offset and storage.
    addresses: BTreeSet<(u32, usize, StorageId)>,
    /// The storages that are only away from device memory.
    pub absent: Absent,
    /// The storages whose neighbourhoods may have changed since costs were remembered.
    pub changes: Changes,
}

/// A list for each size class, and a bit for each class that has members.
#[derive(Debug)]
struct Lists {
    ends: [Ends; CLASSES],
    members: u64,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { ends: [Ends::default(); CLASSES], members: 0 }
    }
}

/// The number of size classes. Class `n` has sizes from `2^n` bytes to less than twice that. So large storages are found without
/// a look at thousands of small ones.
const CLASSES: usize = usize::BITS as usize;

/// Both ends of a list.
#[derive(Debug, Default, Clone, Copy)]
struct Ends {
    newest: Option<StorageId>,
    oldest: Option<StorageId>,
}

fn class(bytes: usize) -> usize {
    bytes.max(1).ilog2() as usize
}

impl Storages {
    /// Makes the record of a storage without bytes, held by a handle, that a stream makes in this many checkpointed scopes.
    pub fn insert(
        &mut self,
        size_bytes: usize,
        made_by: &'static str,
        stream: StreamId,
        scopes: u32,
    ) -> StorageId {
        let storage = Storage {
            number: self.made,
            size_bytes,
            dtype: None,
            made_by,
            copies: Copies::default(),
            lineage: Lineage::default(),
            uses: Uses { held: true, ..Uses::default() },
            access: Access { stream, ..Access::default() },
            failure: None,
            recency: Recency { scopes, ..Recency::default() },
        };
        self.made += 1;
        StorageId(self.records.insert(storage))
    }

    /// Removes the record of a storage without bytes that nothing needs.
    pub fn remove(&mut self, id: StorageId) {
        let storage = &self[id];
        debug_assert!(!storage.stored() && !storage.active() && storage.lineage.recipe.is_none());
        self.records.discard(id.0);
    }

    /// Whether the record exists.
    pub fn contains(&self, id: StorageId) -> bool {
        self.records.get(id.0).is_some()
    }

    /// A storage as traces name it: by its number, which is never reused, and its size.
    pub fn made_as(&self, id: StorageId) -> Made {
        Made { storage: self.number(id), bytes: self[id].size_bytes }
    }

    /// A storage's number.
    pub fn number(&self, id: StorageId) -> u64 {
        self[id].number
    }

    /// How many storages were made so far. This is the number of the next one.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Every record.
    pub fn iter(&self) -> impl Iterator<Item = (StorageId, &Storage)> {
        self.records.iter().map(|(place, storage)| (StorageId(place), storage))
    }

    /// Gives a storage its device copy and makes it the most recently used.
    pub fn set_device(&mut self, id: StorageId, copy: TierCopy, now_ns: u64) {
        if !self[id].stored() {
            self.changed(id);
        }
        self.unlist_absent(id);
        self[id].copies.device = Some(copy);
        self.addresses.insert((copy.block.slab, copy.block.offset, id));
        self.link_newest(id, now_ns);
    }

    /// Takes the device copy away.
    pub fn take_device(&mut self, id: StorageId) -> Option<TierCopy> {
        let copy = self[id].copies.device.take()?;
        self.addresses.remove(&(copy.block.slab, copy.block.offset, id));
        self.unlink(id);
        self.list_absent(id);
        if !self[id].stored() {
            self.changed(id);
        }
        Some(copy)
    }

    /// Replaces the device copy of a resident storage by one elsewhere in device memory.
    pub fn move_device(&mut self, id: StorageId, copy: TierCopy) {
        let before = self[id].copies.device.replace(copy).expect("only a resident storage is moved");
        self.addresses.remove(&(before.block.slab, before.block.offset, id));
        self.addresses.insert((copy.block.slab, copy.block.offset, id));
    }

    /// Replaces the copy in a tier away from device memory, and returns the one before.
    pub fn set_away(&mut self, id: StorageId, tier: Tier, copy: Option<TierCopy>) -> Option<TierCopy> {
        if copy.is_none() && self[id].copies.away.is_none() {
            return None;
        }
        self.unlist_absent(id);
        let mut away = self[id].copies.away.take().unwrap_or_default();
        let before = away.replace(tier, copy);
        if !away.is_empty() {
            self[id].copies.away = Some(away);
            self.list_absent(id);
        } else if !self[id].stored() {
            self.changed(id);
        }
        before
    }

    /// Notes work that reads the copy in a tier away from device memory.
    pub fn touch_away(&mut self, id: StorageId, tier: Tier, mark: Mark) {
        if let Some(away) = &mut self[id].copies.away {
            away.touch(tier, mark);
        }
    }

    /// Lists a storage, if it is absent.
    fn list_absent(&mut self, id: StorageId) {
        let Storage { copies, access, .. } = &mut self.records[id.0];
        if let Copies { device: None, away: Some(away), .. } = copies {
            self.absent.list(id, away, access.next_use, access.used_ns);
        }
    }

    fn unlist_absent(&mut self, id: StorageId) {
        if let Some(away) = &mut self.records[id.0].copies.away {
            self.absent.unlist(id, away);
        }
    }

    /// Notes that a storage's recipe, its consumers, or whether it is stored has changed.
    pub fn changed(&mut self, id: StorageId) {
        self.changes.add(id);
    }

    /// Makes a resident storage the most recently used.
    pub fn touch(&mut self, id: StorageId, now_ns: u64) {
        if self[id].recency.used_as != self.uses_so_far {
            self.unlink(id);
            self.link_newest(id, now_ns);
        }
        self[id].access.used_ns = now_ns;
    }

    /// The resident storages, least recently used first.
    pub fn residents(&self) -> impl Iterator<Item = StorageId> {
        self.in_order(ResidentFilter::default())
    }

    /// The resident storages that pass a filter, least recently used first.
    pub fn in_order(&self, filter: ResidentFilter) -> impl Iterator<Item = StorageId> {
        let heads = self.oldest(filter).map(|id| (self[id].recency.used_as, id));
        let mut oldest: ArrayVec<(u64, StorageId), { 2 * CLASSES }> = heads.collect();
        let in_order = std::iter::from_fn(move || {
            let (at, &(_, id)) = oldest.iter().enumerate().min_by_key(|(_, (used_as, _))| *used_as)?;
            match self[id].recency.newer {
                Some(newer) => oldest[at] = (self[newer].recency.used_as, newer),
                None => {
                    oldest.swap_remove(at);
                }
            }
            Some(id)
        });
        in_order.filter(move |&id| self[id].size_bytes >= filter.min_bytes)
    }

    /// The resident storages that pass a filter, list by list. This is faster than [`in_order`](Storages::in_order).
    pub fn in_any_order(&self, filter: ResidentFilter) -> impl Iterator<Item = StorageId> {
        let newer = |&id: &StorageId| self[id].recency.newer;
        let lists = self.oldest(filter).flat_map(move |oldest| std::iter::successors(Some(oldest), newer));
        lists.filter(move |&id| self[id].size_bytes >= filter.min_bytes)
    }

    /// Whether the address of every resident storage is known, and no other.
    pub fn knows_addresses(&self) -> bool {
        let at = |id: StorageId| self[id].copies.device.map(|copy| (copy.block.slab, copy.block.offset, id));
        self.residents().all(|id| at(id).is_some_and(|at| self.addresses.contains(&at)))
            && self.residents().count() == self.addresses.len()
    }

    /// All resident storages that a range of the first slab may overlap, and some others.
    pub fn residents_near(&self, offset: usize, bytes: usize) -> impl Iterator<Item = StorageId> {
        let at = |slab, offset| (slab, offset, StorageId(0));
        let before = self.addresses.range(..at(0, offset)).next_back();
        let within = self.addresses.range(at(0, offset)..at(0, offset + bytes));
        let elsewhere = self.addresses.range(at(1, 0)..);
        before.into_iter().chain(within).chain(elsewhere).map(|&(_, _, id)| id)
    }

    /// The least recently used storage of each list that can have storages that pass a filter.
    fn oldest(&self, filter: ResidentFilter) -> impl Iterator<Item = StorageId> {
        let lists = &self.lists[usize::from(filter.recomputed_first)..];
        lists.iter().flat_map(move |lists| {
            let mut members = lists.members & (u64::MAX << class(filter.min_bytes));
            std::iter::from_fn(move || {
                let class = (members != 0).then(|| members.trailing_zeros())?;
                members &= members - 1;
                Some(lists.ends[class as usize].oldest.expect("the class has members"))
            })
        })
    }

    /// Lowers the number of checkpointed scopes that a storage counts as made in to at most `max`.
    pub fn limit_scopes(&mut self, id: StorageId, max: u32) {
        let resident = self[id].copies.device.is_some();
        if resident {
            self.unlink(id);
        }
        self[id].recency.scopes = self[id].recency.scopes.min(max);
        if resident {
            self.link_newest(id, self[id].access.used_ns);
        }
    }

    /// The lists that a storage belongs to while it is resident, and its size class.
    fn lists(&mut self, id: StorageId) -> (&mut Lists, usize) {
        let storage = &self[id];
        let (first, class) = (storage.is_recomputed_first(), class(storage.size_bytes));
        (&mut self.lists[usize::from(first)], class)
    }

    fn link_newest(&mut self, id: StorageId, now_ns: u64) {
        self.uses_so_far += 1;
        let used_as = self.uses_so_far;
        let (lists, class) = self.lists(id);
        lists.members |= 1 << class;
        let before = lists.ends[class].newest.replace(id);
        if before.is_none() {
            lists.ends[class].oldest = Some(id);
        }
        let storage = &mut self[id];
        (storage.recency.older, storage.recency.newer, storage.access.used_ns, storage.recency.used_as) =
            (before, None, now_ns, used_as);
        if let Some(before) = before {
            self[before].recency.newer = Some(id);
        }
    }

    fn unlink(&mut self, id: StorageId) {
        let (older, newer) = (self[id].recency.older.take(), self[id].recency.newer.take());
        if let Some(older) = older {
            self[older].recency.newer = newer;
        }
        if let Some(newer) = newer {
            self[newer].recency.older = older;
        }
        let (lists, class) = self.lists(id);
        let ends = &mut lists.ends[class];
        ends.oldest = if older.is_none() { newer } else { ends.oldest };
        ends.newest = if newer.is_none() { older } else { ends.newest };
        if ends.oldest.is_none() {
            lists.members &= !(1 << class);
        }
    }
}

impl std::ops::Index<StorageId> for Storages {
    type Output = Storage;
    fn index(&self, id: StorageId) -> &Storage {
        &self.records[id.0]
    }
}

impl std::ops::IndexMut<StorageId> for Storages {
    fn index_mut(&mut self, id: StorageId) -> &mut Storage {
        &mut self.records[id.0]
    }
}

#[cfg(test)]
mod tests {
    use super::super::away::Place;
    use super::*;
    use crate::pool::memory::block::Block;

    #[test]
    fn residents_come_in_order_of_use_whatever_their_size() {
        let mut storages = Storages::default();
        let block = Block::default();
        let made = [(5000, 2), (300, 0), (70_000, 0), (0, 1), (300, 1), (9000, 0)];
        let ids =
            made.map(|(size_bytes, scopes)| storages.insert(size_bytes, "test", StreamId::default(), scopes));
        for (now, &id) in ids.iter().enumerate() {
            storages.set_device(id, TierCopy::new(block, Mark::default()), now as u64);
        }
        let order = |storages: &Storages, min_bytes| {
            let filter = ResidentFilter { min_bytes, recomputed_first: false };
            let ordered: Vec<_> = storages.in_order(filter).collect();
            let mut listed: Vec<_> = storages.in_any_order(filter).collect();
            listed.sort_unstable_by_key(|&id| storages[id].recency());
            assert_eq!(listed, ordered);
            ordered
        };
        assert_eq!(order(&storages, 0), ids);
        storages.touch(ids[1], 7);
        storages.touch(ids[1], 8);
        storages.take_device(ids[3]);
        assert_eq!(order(&storages, 0), [0, 2, 4, 5, 1].map(|index| ids[index]));
        assert_eq!(order(&storages, 5000), [0, 2, 5].map(|index| ids[index]));
        assert_eq!(order(&storages, 5001), [2, 5].map(|index| ids[index]));
        assert_eq!(order(&storages, 1 << 40), []);
        let recomputed_first = ResidentFilter { min_bytes: 0, recomputed_first: true };
        let first = |storages: &Storages| storages.in_order(recomputed_first).collect::<Vec<_>>();
        assert_eq!(first(&storages), [0, 4].map(|index| ids[index]));
        storages.limit_scopes(ids[0], 1);
        storages.limit_scopes(ids[4], 0);
        assert_eq!(first(&storages), [ids[0]]);
        assert_eq!(order(&storages, 0), [2, 5, 1, 0, 4].map(|index| ids[index]));
        storages.take_device(ids[0]);
        assert_eq!(first(&storages), []);
    }

    #[test]
    fn absent_storages_are_listed_by_their_next_use() {
        let mut storages = Storages::default();
        storages.absent.is_listed = true;
        let copy = TierCopy::new(Block::default(), Mark::default());
        let uses = [NextUse::Unknown, NextUse::At(7), NextUse::Never, NextUse::At(3), NextUse::Unknown];
        let ids = uses.map(|next_use| {
            let id = storages.insert(256, "test", StreamId::default(), 0);
            storages[id].access.next_use = next_use;
            storages[id].access.used_ns = u64::from(id.0);
            storages.set_away(id, Tier::Host, Some(copy));
            id
        });
        let listed = |storages: &Storages, place| -> Vec<u32> {
            storages.absent.in_place(place).map(|(_, id)| id.0).collect()
        };
        assert_eq!(listed(&storages, Place::Memory), [3, 1, 4, 0, 2]);
        storages.set_away(ids[1], Tier::Disk, Some(copy));
        storages.set_away(ids[4], Tier::Disk, Some(copy));
        storages.set_away(ids[4], Tier::Host, None);
        storages.set_device(ids[0], copy, 0);
        assert_eq!(listed(&storages, Place::Memory), [3, 2]);
        assert_eq!((listed(&storages, Place::Both), listed(&storages, Place::Disk)), (vec![1], vec![4]));
        storages.take_device(ids[0]);
        storages.set_away(ids[2], Tier::Peer, Some(copy));
        assert_eq!(
            (listed(&storages, Place::Memory), listed(&storages, Place::Both)),
            (vec![3, 0], vec![1, 2])
        );
        storages.set_away(ids[2], Tier::Host, None);
        assert_eq!(listed(&storages, Place::Both), [1]);
        assert_eq!(listed(&storages, Place::Disk), [4]);
    }
}
