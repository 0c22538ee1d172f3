//! Copies between host memory and the other tiers away from device memory: what is needed last leaves host memory when that is full, to
//! another device or to the disk, and comes back when it is needed there.

use crate::engine::Tier;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::address_space::Placed;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::{Place, TierCopy};
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;

impl Pool {
    /// Allocates a block of the host tier for what never leaves it for another tier. It takes no more than half of what could be there.
    pub(in crate::pool) fn lasting_host_block(&mut self, bytes: usize) -> Result<Placed, Error> {
        let half_bytes = self.memory.host.limit_bytes() / 2;
        match self.memory.has_other_tiers() && self.memory.host_room_bytes() < half_bytes + bytes {
            true => Ok(None),
            false => self.memory.allocate_host(bytes),
        }
    }

    /// Takes the storage that is needed last out of host memory, of those that are in another tier too. Returns `false` if there is
    /// none.
    pub(in crate::pool) fn leave_what_is_elsewhere(&mut self) -> bool {
        let storages = &self.graph.storages;
        let absent = storages.absent.in_place(Place::Both).rev().map(|(_, id)| id);
        let found = absent.into_iter().find(|&id| storages[id].uses.host_pins == 0);
        found.into_iter().for_each(|id| self.graph.free_copy(id, Tier::Host, &mut self.memory));
        found.is_some()
    }

    /// Moves the storage that is needed last of those in host memory only to another device, or else to the disk. Returns `false` if
    /// there is none or neither has room. What makes room `for_return` may take the room of the disk that is spared for that.
    pub(in crate::pool) fn move_last_needed(&mut self, for_return: bool) -> Result<bool, Error> {
        let storages = &self.graph.storages;
        let mut absent = storages.absent.in_place(Place::Memory).rev().map(|(_, id)| id);
        let found = absent.find(|&id| storages[id].uses.host_pins == 0);
        drop(absent);
        let Some(id) = found else { return Ok(false) };
        let size_bytes = storages[id].size_bytes;
        let (tier, placed) = match self.memory.allocate_peer(size_bytes)? {
            Some(placed) => (Tier::Peer, Some(placed)),
            None => (Tier::Disk, self.disk_block(size_bytes, for_return)?),
        };
        let Some((block, busy)) = placed else { return Ok(false) };
        self.copy_between(id, [Tier::Host, tier], block, busy)?;
        self.graph.free_copy(id, Tier::Host, &mut self.memory);
        Ok(true)
    }

    /// A block of the disk. If necessary, storages that are in host memory too leave the disk.
    pub(in crate::pool) fn disk_block(&mut self, bytes: usize, for_return: bool) -> Result<Placed, Error> {
        loop {
            let placed = self.memory.allocate_disk(bytes, for_return)?;
            if placed.is_some() {
                return Ok(placed);
            }
            let storages = &self.graph.storages;
            let is_on_disk = |id: &StorageId| storages[*id].copies.in_tier(Tier::Disk).is_some();
            let found = storages.absent.in_place(Place::Both).map(|(_, id)| id).find(is_on_disk);
            let Some(id) = found else { return Ok(None) };
            self.graph.free_copy(id, Tier::Disk, &mut self.memory);
        }
    }

    /// The copy of a storage in host memory, which comes from another tier if it is only there; `None` if there is no room for it.
    pub(in crate::pool) fn in_host_memory(&mut self, id: StorageId) -> Result<Option<TierCopy>, Error> {
        let copies = &self.graph.storages[id].copies;
        if let Some(copy) = copies.in_tier(Tier::Host) {
            return Ok(Some(copy));
        }
        let tier = if copies.in_tier(Tier::Peer).is_some() { Tier::Peer } else { Tier::Disk };
        let placed = self.host_block_for(self.graph.storages[id].size_bytes, true, true)?;
        let Some((block, busy)) = placed else { return Ok(None) };
        self.copy_between(id, [tier, Tier::Host], block, busy).map(Some)
    }

    /// Reads a storage from the disk into a block of host memory.
    pub(in crate::pool) fn load(
        &mut self,
        id: StorageId,
        (block, busy): (Block, PendingWork),
    ) -> Result<(), Error> {
        self.copy_between(id, [Tier::Disk, Tier::Host], block, busy).map(drop)
    }

    /// Copies a storage from one tier away from device memory into a block of another, of which one is host memory. The block is
    /// freed after an error.
    fn copy_between(
        &mut self,
        id: StorageId,
        [from, to]: [Tier; 2],
        block: Block,
        busy: PendingWork,
    ) -> Result<TierCopy, Error> {
        let lane = if from == Tier::Host { to.lanes()[0] } else { from.lanes()[1] };
        let storage = &self.graph.storages[id];
        let source = storage.copies.in_tier(from).expect("a storage is copied from a tier that has it");
        // Whole blocks, since the disk reads and writes nothing less.
        let bytes = if lane.is_of_disk() { source.block.bytes.min(block.bytes) } else { storage.size_bytes };
        let source_span = self.memory.span(from, source.block, bytes);
        let mark = self.copy_into(lane, source_span, (to, block), busy.with(source.written))?;
        let copy = TierCopy::new(block, mark);
        self.graph.storages.set_away(id, to, Some(copy));
        self.graph.storages.touch_away(id, from, mark);
        self.note_copy(lane, id);
        Ok(copy)
    }
}
