//! Storages: the bytes behind tensors, and the states they can be in.

use std::sync::Arc;

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use super::components::Member;
use super::ids::RecipeId;
use super::remembered_cost::{RememberedCost, Changes};
use super::table::Table;
use crate::engine::EngineError;
use crate::liveness::{NextUse, Touch};
use crate::op::Dtype;
use crate::pool::memory::block::Block;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;
use crate::schedule::{ScheduledInterval, StreamId};
use crate::trace::Made;

/// Bytes on one tier, and the work submitted on them.
#[derive(Debug, Clone, Copy)]
pub struct TierCopy {
    /// Where.
    pub block: Block,
    /// Writes that must be done before the bytes are right.
    pub written: PendingWork,
    /// All work that touches the block, reads and writes.
    pub touched: PendingWork,
}

impl TierCopy {
    /// A copy that `written` makes right.
    pub fn new(block: Block, written: PendingWork) -> Self {
        TierCopy { block, written, touched: written }
    }
}

/// What a storage that descends from a failed launch tells.
pub type Cause = Arc<EngineError>;

/// Consumers that take no memory apart from the record.
const FEW_CONSUMERS: usize = 4;

/// Where a storage's bytes are.
#[derive(Debug, Default)]
pub struct Copies {
    /// In device memory.
    pub device: Option<TierCopy>,
    /// In host memory. With a `device` copy, it is a clean copy.
    pub host: Option<Box<TierCopy>>,
    /// Of an encoded form: the block of the host tier for what the form has no room for. `host` is a copy of the form itself.
    pub overflow: Option<Box<TierCopy>>,
}

/// How a storage is rematerialized, and what is rematerialized from it.
#[derive(Debug, Default)]
pub struct Lineage {
    /// The recipe that makes it; `None` for a source.
    pub recipe: Option<RecipeId>,
    /// The recipes that read it.
    pub consumers: SmallVec<[RecipeId; FEW_CONSUMERS]>,
    /// The signs of its values, if they are kept in its place; never together with its bytes.
    pub signs: Option<StorageId>,
    /// The most ops between this storage and bytes that no recipe makes.
    pub depth: u32,
    /// Its place among evicted storages, if the policy asks for these.
    pub member: Option<Member>,
    /// The remembered cost of its evicted neighbourhood.
    pub neighbourhood_cost: RememberedCost,
}

/// Who needs a storage.
#[derive(Debug, Default)]
pub struct Uses {
    /// A user's handle exists.
    pub held: bool,
    /// Recipes of evicted storages that will read it.
    pub claims: u32,
    /// Uses by the op that acquires memory now: its bytes stay stored.
    pub pins: u32,
    /// The program reads or writes the host copy: it stays.
    pub host_pins: u32,
    /// Rematerializations under way that will read it: its bytes are moved, never dropped.
    pub wanted: u32,
}

/// When a storage is used.
#[derive(Debug, Default)]
pub struct Access {
    /// The stream that it belongs to: the one whose op touched it last, or that made it.
    pub stream: StreamId,
    /// Where that stream's ops touched it last.
    pub touch: Touch,
    /// When they will next, by the ops of the stream.
    pub next_use: NextUse,
    /// The interval of the schedule that it is in.
    pub interval: Option<ScheduledInterval>,
    /// When an op last used it, by the predicted time of all ops until then.
    pub used_ns: u64,
    /// It was fetched before it was asked for, and no op has used it since.
    pub prefetched: bool,
    /// When the host copy of a resident storage is complete, by the predicted time of all ops until then.
    pub clean_at_ns: u64,
}

/// A storage's place in the lists of residents.
#[derive(Debug, Default)]
struct Recency {
    /// The checkpointed scopes that it was made in and is no result of. While there are any, its bytes are dropped first.
    scopes: u32,
    /// How many storages became the most recently used before it did.
    turn: u64,
    newer: Option<StorageId>,
    older: Option<StorageId>,
}

/// The record of one storage. Its value never changes.
///
/// It is *stored* if its bytes are on a tier, and *active* if a handle or a claim needs them. Not active is not stored.
/// Active and not stored is recomputable: its recipe then claims its own inputs. See [`Graph`](super::recipe::Graph).
#[derive(Debug)]
pub struct Storage {
    /// How many were made before it.
    pub number: u64,
    /// Exact size; blocks are rounded up.
    pub size_bytes: usize,
    /// Element type, if an op made it.
    pub dtype: Option<Dtype>,
    /// The name of the op that made it: for people.
    pub made_by: &'static str,
    pub copies: Copies,
    pub lineage: Lineage,
    pub uses: Uses,
    pub access: Access,
    /// The launch that failed which its values descend from: they mean nothing.
    pub failure: Option<Cause>,
    recency: Recency,
}

impl Storage {
    /// Whether the bytes are on some tier.
    pub fn stored(&self) -> bool {
        self.copies.device.is_some() || self.copies.host.is_some()
    }

    /// Whether the bytes are needed.
    pub fn active(&self) -> bool {
        self.uses.held || self.uses.claims > 0
    }

    /// The checkpointed scopes that it was made in and is no result of.
    pub fn scopes(&self) -> u32 {
        self.recency.scopes
    }

    /// The greater, the later it was used or came back; of no other resident the same.
    pub fn recency(&self) -> u64 {
        self.recency.turn
    }

    /// Whether its bytes are to be dropped before others leave.
    pub fn is_recomputed_first(&self) -> bool {
        self.recency.scopes > 0
    }
}

/// Which residents are looked at.
#[derive(Debug, Default, Clone, Copy)]
pub struct ResidentFilter {
    /// Those of at least so many bytes.
    pub min_bytes: usize,
    /// Only those that are recomputed first.
    pub first: bool,
}

/// All records, and the resident ones in order of use.
#[derive(Debug, Default)]
pub struct Storages {
    records: Table<Storage>,
    made: u64,
    /// ResidentFilter in order of use, by class of size: first those that are not recomputed first, then those that are.
    lists: [Lists; 2],
    turns: u64,
    /// Storages that others are not to be remade through as before.
    pub changes: Changes,
}

/// A list for each class, and a bit for each that has members.
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

/// Class `n` is of `2^n` bytes and more, less than twice that. So those that are large enough are found without passing by
/// thousands of small ones.
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
    /// A record for `size_bytes` bytes that are nowhere yet, held by a handle, made by a stream in so many checkpointed scopes.
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

    /// Forgets a record that holds no bytes.
    pub fn remove(&mut self, id: StorageId) {
        let storage = &self[id];
        debug_assert!(!storage.stored() && !storage.active() && storage.lineage.recipe.is_none());
        self.records.remove(id.0);
    }

    /// Whether the record exists.
    pub fn contains(&self, id: StorageId) -> bool {
        self.records.get(id.0).is_some()
    }

    /// A storage by its number, which is never used again, and its size.
    pub fn made_as(&self, id: StorageId) -> Made {
        Made { storage: self.number(id), bytes: self[id].size_bytes }
    }

    /// A storage's number.
    pub fn number(&self, id: StorageId) -> u64 {
        self[id].number
    }

    /// How many were made so far: the number that the next will have.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Number of records.
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
        self[id].copies.device = Some(copy);
        self.link_newest(id, now_ns);
    }

    /// Takes the device copy away.
    pub fn take_device(&mut self, id: StorageId) -> Option<TierCopy> {
        let copy = self[id].copies.device.take()?;
        self.unlink(id);
        if !self[id].stored() {
            self.changed(id);
        }
        Some(copy)
    }

    /// Takes the host copy away.
    pub fn take_host(&mut self, id: StorageId) -> Option<Box<TierCopy>> {
        let copy = self[id].copies.host.take()?;
        if !self[id].stored() {
            self.changed(id);
        }
        Some(copy)
    }

    /// What a storage is made from or through, or whether its bytes are stored, is not what it was.
    pub fn changed(&mut self, id: StorageId) {
        self.changes.add(id);
    }

    /// Makes a resident storage the most recently used.
    pub fn touch(&mut self, id: StorageId, now_ns: u64) {
        if self[id].recency.turn != self.turns {
            self.unlink(id);
            self.link_newest(id, now_ns);
        }
        self[id].access.used_ns = now_ns;
    }

    /// Resident storages, least recently used first.
    pub fn residents(&self) -> impl Iterator<Item = StorageId> {
        self.in_order(ResidentFilter::default())
    }

    /// Some of them, least recently used first.
    pub fn in_order(&self, residents: ResidentFilter) -> impl Iterator<Item = StorageId> {
        let heads = self.oldest(residents).map(|id| (self[id].recency.turn, id));
        let mut oldest: ArrayVec<(u64, StorageId), { 2 * CLASSES }> = heads.collect();
        let in_order = std::iter::from_fn(move || {
            let (at, &(_, id)) = oldest.iter().enumerate().min_by_key(|(_, (turn, _))| *turn)?;
            match self[id].recency.newer {
                Some(newer) => oldest[at] = (self[newer].recency.turn, newer),
                None => {
                    oldest.swap_remove(at);
                }
            }
            Some(id)
        });
        in_order.filter(move |&id| self[id].size_bytes >= residents.min_bytes)
    }

    /// The same, list by list, which takes less time.
    pub fn in_any_order(&self, residents: ResidentFilter) -> impl Iterator<Item = StorageId> {
        let newer = |&id: &StorageId| self[id].recency.newer;
        let lists = self.oldest(residents).flat_map(move |oldest| std::iter::successors(Some(oldest), newer));
        lists.filter(move |&id| self[id].size_bytes >= residents.min_bytes)
    }

    /// The least recently used of each list.
    fn oldest(&self, residents: ResidentFilter) -> impl Iterator<Item = StorageId> {
        let lists = &self.lists[usize::from(residents.first)..];
        lists.iter().flat_map(move |lists| {
            let mut members = lists.members & (u64::MAX << class(residents.min_bytes));
            std::iter::from_fn(move || {
                let class = (members != 0).then(|| members.trailing_zeros())?;
                members &= members - 1;
                Some(lists.ends[class as usize].oldest.expect("it has members"))
            })
        })
    }

    /// A storage counts as made in so many checkpointed scopes at the most from now on.
    pub fn limit_scopes(&mut self, id: StorageId, most: u32) {
        let resident = self[id].copies.device.is_some();
        if resident {
            self.unlink(id);
        }
        self[id].recency.scopes = self[id].recency.scopes.min(most);
        if resident {
            self.link_newest(id, self[id].access.used_ns);
        }
    }

    /// The lists that a storage is in one of while it is resident, and which.
    fn lists(&mut self, id: StorageId) -> (&mut Lists, usize) {
        let storage = &self[id];
        let (first, class) = (storage.is_recomputed_first(), class(storage.size_bytes));
        (&mut self.lists[usize::from(first)], class)
    }

    fn link_newest(&mut self, id: StorageId, now_ns: u64) {
        self.turns += 1;
        let turn = self.turns;
        let (lists, class) = self.lists(id);
        lists.members |= 1 << class;
        let before = lists.ends[class].newest.replace(id);
        if before.is_none() {
            lists.ends[class].oldest = Some(id);
        }
        let storage = &mut self[id];
        (storage.recency.older, storage.recency.newer, storage.access.used_ns, storage.recency.turn) =
            (before, None, now_ns, turn);
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
    use super::*;

    #[test]
    fn residents_come_in_order_of_use_whatever_their_size() {
        let mut storages = Storages::default();
        let block = Block::default();
        let made = [(5000, 2), (300, 0), (70_000, 0), (0, 1), (300, 1), (9000, 0)];
        let ids =
            made.map(|(size_bytes, scopes)| storages.insert(size_bytes, "test", StreamId::default(), scopes));
        for (now, &id) in ids.iter().enumerate() {
            storages.set_device(id, TierCopy::new(block, PendingWork::default()), now as u64);
        }
        let order = |storages: &Storages, min_bytes| {
            let residents = ResidentFilter { min_bytes, first: false };
            let ordered: Vec<_> = storages.in_order(residents).collect();
            let mut listed: Vec<_> = storages.in_any_order(residents).collect();
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
        let recomputed_first = ResidentFilter { min_bytes: 0, first: true };
        let first = |storages: &Storages| storages.in_order(recomputed_first).collect::<Vec<_>>();
        assert_eq!(first(&storages), [0, 4].map(|index| ids[index]));
        storages.limit_scopes(ids[0], 1);
        storages.limit_scopes(ids[4], 0);
        assert_eq!(first(&storages), [ids[0]]);
        assert_eq!(order(&storages, 0), [2, 5, 1, 0, 4].map(|index| ids[index]));
        storages.take_device(ids[0]);
        assert_eq!(first(&storages), []);
    }
}
