//! Moves within device memory: what an iteration begins with is brought to the addresses that a plan has for it.

use crate::engine::Lane;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::storage::{TierCopy, Residents};
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::Pending;
use crate::schedule::{Layout, Spot};

impl Pool {
    /// Moves what is resident when an iteration begins to where the plan has it. Where something cannot be now, it is tried
    /// again an iteration later.
    ///
    /// When a plan begins to be followed, blocks are anywhere. What does not outlive the iteration is soon gone; what stays has to
    /// be moved, once. What is made anew while its like of the iteration before is still there, such as a weight that is not
    /// updated in place, is moved in every iteration: by the offload lane, beside the ops that need none of it.
    pub(in crate::pool) fn relocate_residents(&mut self, layout: &Layout) -> Result<(), Error> {
        self.clear_away(layout)?;
        // First those whose place is free, as long as there are any.
        while self.relocate_all(layout, false)? > 0 {}
        self.relocate_all(layout, true).map(|_| ())
    }

    /// Evicts what is resident and not planned to be. What cannot be evicted goes to the highest addresses, where the plan has
    /// nothing.
    fn clear_away(&mut self, layout: &Layout) -> Result<(), Error> {
        let following = self.follower.plans.present();
        let is_planned = |&id: &StorageId| {
            let storage = &self.graph.storages[id];
            let interval = following.and_then(|following| following.interval(storage));
            interval.is_some_and(|interval| {
                layout.residents.binary_search_by_key(&interval, |&(interval, _)| interval).is_ok()
                    && following.and_then(|following| following.storage_in(interval, &self.graph.storages))
                        == Some(id)
            })
        };
        let mut others: Vec<StorageId> =
            self.graph.storages.residents().filter(|id| !is_planned(id)).collect();
        others.sort_unstable_by_key(|&id| self.graph.storages[id].number);
        let mut end = self.memory.device.limit_bytes();
        for id in others {
            if self.can_leave(&self.graph.storages[id]) {
                self.evict(id, true)?;
            }
            if let Some(copy) = self.graph.storages[id].device {
                end = end.saturating_sub(copy.block.bytes);
                let spot = Spot::At(end);
                if !self.memory.device.is_at(copy.block, &spot) && self.clear(&spot, copy.block.bytes)? {
                    self.relocate(id, copy.block.bytes, &spot)?;
                }
            }
        }
        Ok(())
    }

    /// `clear`: what is in the way is moved too. How many were moved.
    fn relocate_all(&mut self, layout: &Layout, clear: bool) -> Result<usize, Error> {
        let mut count = 0;
        for (interval, spot) in &layout.residents {
            let following = self.follower.plans.present();
            let id = following.and_then(|following| following.storage_in(*interval, &self.graph.storages));
            if let Some(id) = id
                && let Some(copy) = self.graph.storages[id].device
                && !self.memory.device.is_at(copy.block, spot)
                && (!clear || self.clear(spot, copy.block.bytes)?)
            {
                count += usize::from(self.relocate(id, copy.block.bytes, spot)?);
            }
        }
        Ok(count)
    }

    /// Moves a storage to a spot. `false`: that is not free.
    fn relocate(&mut self, id: StorageId, bytes: usize, spot: &Spot) -> Result<bool, Error> {
        let placed = self.memory.allocate_at(spot, bytes);
        match placed? {
            Some((block, busy)) => self.copy_within(Lane::Offload, id, block, busy).map(|()| true),
            None => Ok(false),
        }
    }

    /// Moves what lies in a spot out of it. `false`: there is no room.
    fn clear(&mut self, spot: &Spot, bytes: usize) -> Result<bool, Error> {
        let ranges = self.memory.device.ranges(spot, bytes);
        let there = self.graph.storages.in_any_order(Residents::default()).collect();
        self.clear_of(Lane::Offload, &ranges, there)
    }

    /// The same of memory that only these may lie in, those first that were used longest ago.
    pub(in crate::pool) fn clear_of(
        &mut self,
        lane: Lane,
        ranges: &[(usize, usize)],
        mut there: Vec<StorageId>,
    ) -> Result<bool, Error> {
        let storages = &self.graph.storages;
        there.retain(|&id| {
            let overlaps =
                |block| ranges.iter().any(|&(at, bytes)| self.memory.device.overlaps(block, at, bytes));
            storages[id].device.is_some_and(|copy| overlaps(copy.block))
        });
        there.sort_unstable_by_key(|&id| storages[id].recency());
        // What is free within them is held meanwhile, so that nothing is moved there.
        let mut held = Vec::new();
        let mut moved = Ok(true);
        for id in there {
            moved = self.hold(ranges, &mut held).and_then(|()| self.move_away(lane, id));
            if !matches!(moved, Ok(true)) {
                break;
            }
        }
        held.into_iter().for_each(|(block, busy)| self.memory.device.free(block, busy));
        moved
    }

    /// Takes all that is free within ranges.
    fn hold(&mut self, ranges: &[(usize, usize)], held: &mut Vec<(Block, Pending)>) -> Result<(), Error> {
        for &(offset, bytes) in ranges {
            for (begin, size) in self.memory.device.free_within(offset, bytes) {
                let placed = self.memory.allocate_at(&Spot::At(begin), size);
                held.extend(placed?);
            }
        }
        Ok(())
    }

    /// Moves a storage to where it fits best. `false`: there is no room.
    fn move_away(&mut self, lane: Lane, id: StorageId) -> Result<bool, Error> {
        let Some(copy) = self.graph.storages[id].device else { return Ok(true) };
        let placed = self.memory.allocate_anywhere(copy.block.bytes);
        match placed? {
            Some((block, busy)) => self.copy_within(lane, id, block, busy).map(|()| true),
            None => Ok(false),
        }
    }

    /// Copies a resident storage into a block that is its own from now on, and frees the one that was.
    fn copy_within(&mut self, lane: Lane, id: StorageId, block: Block, busy: Pending) -> Result<(), Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let old = self.graph.storages[id].device.expect("only a resident storage is moved");
        let (from, to) =
            (self.memory.device.span(old.block, size_bytes), self.memory.device.span(block, size_bytes));
        let mark = match self.submitter.copy(lane, from, to, old.written.and(busy)) {
            Ok(mark) => mark,
            Err(error) => {
                self.memory.device.free(block, busy);
                return Err(self.memory.error(error));
            }
        };
        self.graph.storages[id].device = Some(TierCopy::new(block, Pending::default().with(mark)));
        self.memory.device.free(old.block, old.touched.with(mark));
        self.observer.counters.relocated_bytes += size_bytes as u64;
        self.note_move(lane, id);
        Ok(())
    }
}
