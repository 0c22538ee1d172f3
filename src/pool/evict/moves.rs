//! Moves within device memory.

use crate::engine::{Lane, Tier};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::TierCopy;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;
use crate::schedule::BlockPlacement;

impl Pool {
    /// Moves a storage to a placement. Returns `false` if the placement is not free.
    pub(in crate::pool) fn relocate(
        &mut self,
        id: StorageId,
        bytes: usize,
        placement: &BlockPlacement,
    ) -> Result<bool, Error> {
        let placed = self.memory.allocate_at(placement, bytes);
        match placed? {
            Some((block, busy)) => self.copy_within(Lane::Offload, id, block, busy).map(|()| true),
            None => Ok(false),
        }
    }

    /// Moves all storages that overlap a placement away from it. Returns `false` if there is no other room.
    pub(in crate::pool) fn clear_placement(
        &mut self,
        placement: &BlockPlacement,
        bytes: usize,
    ) -> Result<bool, Error> {
        let ranges = self.memory.device.ranges(placement, bytes);
        self.clear_ranges(Lane::Offload, &ranges)
    }

    /// Moves storages away from ranges of memory, the least recently used first. Returns `false` if there is no other room.
    pub(in crate::pool) fn clear_ranges(
        &mut self,
        lane: Lane,
        ranges: &[(usize, usize)],
    ) -> Result<bool, Error> {
        let storages = &self.graph.storages;
        let within = ranges.iter().flat_map(|&(offset, bytes)| self.residents_within(offset, bytes));
        let mut residents: Vec<StorageId> = within.map(|(id, _)| id).collect();
        residents.sort_unstable_by_key(|&id| storages[id].recency());
        residents.dedup();
        // Free memory within the ranges is held meanwhile, so that no storage moves there.
        let mut held = Vec::new();
        let mut moved = Ok(true);
        for id in residents {
            moved = self.hold_free(ranges, &mut held).and_then(|()| self.move_away(lane, id));
            if !matches!(moved, Ok(true)) {
                break;
            }
        }
        held.into_iter().for_each(|(block, busy)| self.memory.device.free(block, busy));
        moved
    }

    /// The residents that a range of device memory overlaps, and how many bytes of each lie in it.
    pub(in crate::pool) fn residents_within(
        &self,
        offset: usize,
        bytes: usize,
    ) -> impl Iterator<Item = (StorageId, usize)> {
        let storages = &self.graph.storages;
        let overlap = move |id: StorageId| {
            let block = storages[id].copies.device.expect("a resident has a device copy").block;
            let mut within_bytes = 0;
            self.memory.device.each_range(block, |at, size| {
                within_bytes += (at + size).min(offset + bytes).saturating_sub(at.max(offset));
            });
            (id, within_bytes)
        };
        storages.residents_near(offset, bytes).map(overlap).filter(|&(_, within_bytes)| within_bytes > 0)
    }

    /// Allocates all free memory within the ranges.
    fn hold_free(
        &mut self,
        ranges: &[(usize, usize)],
        held: &mut Vec<(Block, PendingWork)>,
    ) -> Result<(), Error> {
        for &(offset, bytes) in ranges {
            for (begin, size) in self.memory.device.free_within(offset, bytes) {
                let placed = self.memory.allocate_at(&BlockPlacement::At(begin), size);
                held.extend(placed?);
            }
        }
        Ok(())
    }

    /// Moves a storage to where it fits best. Returns `false` if there is no room.
    fn move_away(&mut self, lane: Lane, id: StorageId) -> Result<bool, Error> {
        let Some(copy) = self.graph.storages[id].copies.device else { return Ok(true) };
        let placed = self.memory.allocate_anywhere(copy.block.bytes);
        match placed? {
            Some((block, busy)) => self.copy_within(lane, id, block, busy).map(|()| true),
            None => Ok(false),
        }
    }

    /// Copies a resident storage into a new block, and frees its old one.
    fn copy_within(
        &mut self,
        lane: Lane,
        id: StorageId,
        block: Block,
        busy: PendingWork,
    ) -> Result<(), Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let old = self.graph.storages[id].copies.device.expect("only a resident storage is moved");
        let from = self.memory.device.span(old.block, size_bytes);
        let mark = self.copy_into(lane, from, (Tier::Device, block), busy.with(old.written))?;
        self.graph.storages.move_device(id, TierCopy::new(block, mark));
        self.memory.device.free(old.block, old.touched.with(mark));
        self.observer.counters.relocated_bytes += size_bytes as u64;
        self.observer.note_move(&self.graph, &self.submitter, lane, id);
        Ok(())
    }
}
