//! Releasing storages that nothing needs any more, and then those that only they needed.

use super::ids::StorageId;
use super::recipe::Graph;
use crate::engine::Tier;
use crate::pool::memory::tiers::Memory;

impl Graph {
    /// Frees a storage's device memory, if it has any.
    pub fn free_device(&mut self, id: StorageId, memory: &mut Memory) {
        if let Some(copy) = self.storages.take_device(id) {
            memory.device.free(copy.block, copy.touched);
        }
    }

    /// Frees a storage's blocks away from device memory.
    pub fn free_away(&mut self, id: StorageId, memory: &mut Memory) {
        Tier::AWAY.into_iter().for_each(|tier| self.free_copy(id, tier, memory));
    }

    /// Frees a storage's block in one tier away from device memory, if it has one there.
    pub fn free_copy(&mut self, id: StorageId, tier: Tier, memory: &mut Memory) {
        if let Some(copy) = self.storages.set_away(id, tier, None) {
            memory.free(tier, copy.block, copy.touched);
        }
    }

    /// Handles the end of a handle or a claim of a storage. If that was the last one, its bytes are freed; if it has none, the
    /// claims of its recipe end.
    pub fn need_ended(&mut self, id: StorageId, memory: &mut Memory) {
        if self.storages[id].active() {
            return;
        }
        self.ended_claims.extend(self.storages[id].lineage.signs.take());
        let storage = &self.storages[id];
        if storage.stored() {
            self.free_device(id, memory);
            self.free_away(id, memory);
            if let Some(copy) = self.storages[id].copies.overflow.take() {
                memory.host.free(copy.block, copy.touched);
            }
            self.join_component(id);
        } else if storage.lineage.recipe.is_some() {
            self.unclaim_inputs(id);
        }
        self.settle(id);
    }

    /// Takes the claims in `ended_claims` off their storages, and the claims that end by that too.
    pub fn settle_claims(&mut self, memory: &mut Memory) {
        while let Some(id) = self.ended_claims.pop() {
            self.storages[id].uses.claims -= 1;
            self.need_ended(id, memory);
        }
    }
}
