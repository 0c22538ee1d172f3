//! What nothing needs any more goes, and what only that needed with it.

use super::ids::StorageId;
use super::recipe::Graph;
use crate::pool::memory::tiers::Memory;

impl Graph {
    /// Frees a storage's device memory, if it has any.
    pub fn free_device(&mut self, id: StorageId, memory: &mut Memory) {
        if let Some(copy) = self.storages.take_device(id) {
            memory.device.free(copy.block, copy.touched);
        }
    }

    /// Frees a storage's block in the host tier, if it has one.
    pub fn free_host(&mut self, id: StorageId, memory: &mut Memory) {
        if let Some(copy) = self.storages.take_host(id) {
            memory.host.free(copy.block, copy.touched);
        }
    }

    /// A storage lost a handle or a claim. If it has no other, its bytes go, or the claims of its recipe do.
    pub fn lost_need(&mut self, id: StorageId, memory: &mut Memory) {
        if self.storages[id].active() {
            return;
        }
        self.lost.extend(self.storages[id].lineage.signs.take());
        let storage = &self.storages[id];
        if storage.stored() {
            self.free_device(id, memory);
            self.free_host(id, memory);
            if let Some(copy) = self.storages[id].copies.overflow.take() {
                memory.host.free(copy.block, copy.touched);
            }
            self.lost_bytes(id);
        } else if storage.lineage.recipe.is_some() {
            self.unclaim(id);
        }
        self.settle(id);
    }

    /// Takes off the claims in `lost`, and what follows from that.
    pub fn settle_claims(&mut self, memory: &mut Memory) {
        while let Some(id) = self.lost.pop() {
            self.storages[id].uses.claims -= 1;
            self.lost_need(id, memory);
        }
    }
}
