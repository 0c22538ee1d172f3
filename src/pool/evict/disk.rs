//! Copies between host memory and the disk: what is needed last goes to the disk when the host tier is full, and comes back through
//! host memory.

use crate::engine::Lane;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::address_space::Placed;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::{AwayCopy, Place, TierCopy};
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;

impl Pool {
    /// Allocates a block of the host tier for what never goes to the disk. It takes no more than half of what could be there.
    pub(in crate::pool) fn lasting_host_block(&mut self, bytes: usize) -> Result<Placed, Error> {
        let half_bytes = self.memory.host.limit_bytes() / 2;
        match self.memory.disk.is_some() && self.memory.host_room_bytes() < half_bytes + bytes {
            true => Ok(None),
            false => self.memory.allocate_host(bytes),
        }
    }

    /// Takes the storage that is needed last out of host memory, of those that are on the disk too. Returns `false` if there is none.
    pub(in crate::pool) fn leave_what_is_on_disk(&mut self) -> bool {
        let storages = &self.graph.storages;
        let absent = storages.absent.in_place(Place::Both).rev().map(|(_, id)| id);
        let found = absent.into_iter().find(|&id| storages[id].uses.host_pins == 0);
        found.into_iter().for_each(|id| self.graph.free_host(id, &mut self.memory));
        found.is_some()
    }

    /// Writes the storage that is needed last of those in host memory only to the disk. Returns `false` if there is none or
    /// the disk has no room. What makes room `for_return` may take the room that is spared for that.
    pub(in crate::pool) fn spill_last_needed(&mut self, for_return: bool) -> Result<bool, Error> {
        let storages = &self.graph.storages;
        let mut absent = storages.absent.in_place(Place::Memory).rev().map(|(_, id)| id);
        let found = absent.find(|&id| storages[id].uses.host_pins == 0);
        drop(absent);
        let Some(id) = found else { return Ok(false) };
        let is_spilled = self.spill(id, for_return)?;
        if is_spilled {
            self.graph.free_host(id, &mut self.memory);
        }
        Ok(is_spilled)
    }

    /// Writes a storage from host memory to the disk. Returns `false` if the disk has no room.
    fn spill(&mut self, id: StorageId, for_return: bool) -> Result<bool, Error> {
        let Some(AwayCopy { memory: Some(host), .. }) =
            self.graph.storages[id].copies.away.as_deref().copied()
        else {
            return Ok(false);
        };
        let Some((block, busy)) = self.disk_block(host.block.bytes, for_return)? else { return Ok(false) };
        let from = self.memory.host.span(host.block, host.block.bytes);
        let to = self.memory.disk_span(block, host.block.bytes);
        let mark = match self.submitter.copy(Lane::Spill, from, to, host.written.and(busy)) {
            Ok(mark) => mark,
            Err(error) => {
                self.memory.free_disk(block, busy);
                return Err(self.memory.error(error));
            }
        };
        let disk = TierCopy::new(block, PendingWork::default().with(mark));
        let host = TierCopy { touched: host.touched.with(mark), ..host };
        self.graph.storages.set_away(id, AwayCopy::new(Some(host), Some(disk)));
        self.observer.counters.spilled_bytes += self.graph.storages[id].size_bytes as u64;
        self.follower.note_copy(&self.graph, id, mark);
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Spill, id);
        Ok(true)
    }

    /// A block of the disk. If necessary, storages that are in host memory too leave the disk.
    pub(in crate::pool) fn disk_block(
        &mut self,
        bytes: usize,
        for_return: bool,
    ) -> Result<Option<(Block, PendingWork)>, Error> {
        loop {
            if let Some(placed) = self.memory.allocate_disk(bytes, for_return)? {
                return Ok(Some(placed));
            }
            let Some((_, id)) = self.graph.storages.absent.in_place(Place::Both).next() else {
                return Ok(None);
            };
            self.graph.free_disk(id, &mut self.memory);
        }
    }

    /// The copy of a storage in host memory, which is read from the disk if it is only there; `None` if there is no room for it.
    pub(in crate::pool) fn in_host_memory(&mut self, id: StorageId) -> Result<Option<TierCopy>, Error> {
        let storage = &self.graph.storages[id];
        let away =
            storage.copies.away.as_deref().copied().expect("the storage has a copy away from device memory");
        if away.memory.is_some() {
            return Ok(away.memory);
        }
        let Some(placed) = self.host_block_for(storage.size_bytes, true, true)? else { return Ok(None) };
        self.load(id, placed).map(Some)
    }

    /// Reads a storage from the disk into a block of host memory.
    pub(in crate::pool) fn load(
        &mut self,
        id: StorageId,
        (block, busy): (Block, PendingWork),
    ) -> Result<TierCopy, Error> {
        let away = self.graph.storages[id].copies.away.as_deref().copied().unwrap_or_default();
        let disk = away.disk.expect("only a storage on the disk is read from it");
        let from = self.memory.disk_span(disk.block, disk.block.bytes);
        let to = self.memory.host.span(block, disk.block.bytes);
        let mark = match self.submitter.copy(Lane::Load, from, to, disk.written.and(busy)) {
            Ok(mark) => mark,
            Err(error) => {
                self.memory.host.free(block, busy);
                return Err(self.memory.error(error));
            }
        };
        let host = TierCopy::new(block, PendingWork::default().with(mark));
        let disk = TierCopy { touched: disk.touched.with(mark), ..disk };
        self.graph.storages.set_away(id, AwayCopy::new(Some(host), Some(disk)));
        self.observer.counters.loaded_bytes += self.graph.storages[id].size_bytes as u64;
        self.follower.note_copy(&self.graph, id, mark);
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Load, id);
        Ok(host)
    }
}
