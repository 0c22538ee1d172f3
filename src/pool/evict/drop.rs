//! Dropping bytes that a recipe can bring back.

use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::schedule::Eviction;
use crate::trace::How;

impl Pool {
    /// Drops a resident storage that has a recipe.
    pub(in crate::pool) fn drop_bytes(&mut self, id: StorageId) {
        let cost_ns = self.rematerialize_ns(id, &self.graph.storages[id]).unwrap_or(0);
        self.forget_bytes(id, How::Drop, Eviction::Drop, cost_ns);
        self.observer.counters.drops += 1;
    }

    /// Frees the bytes of a resident storage that has a recipe and no host copy. `cost_ns` is the predicted cost of
    /// that.
    pub(in crate::pool) fn forget_bytes(
        &mut self,
        id: StorageId,
        method: How,
        decision: Eviction,
        cost_ns: u64,
    ) {
        self.observer.note_eviction(&self.graph, id, method, || cost_ns);
        self.follower.note_decision(&self.graph, &mut self.memory, id, decision);
        self.graph.free_device(id, &mut self.memory);
        self.graph.claim_inputs(id);
        self.graph.join_component(id);
        self.follower.note_absent(&self.graph, id);
        self.observer.counters.evictions += 1;
    }
}
