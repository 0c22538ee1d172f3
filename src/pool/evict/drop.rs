//! Dropping bytes that a recipe can bring back.

use super::room::MAX_REMATERIALIZED;
use crate::engine::Tier;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::Storage;
use crate::schedule::Eviction;
use crate::trace::How;

impl Pool {
    /// Drops a resident storage that has a recipe.
    pub(in crate::pool) fn drop_bytes(&mut self, id: StorageId) {
        let cost_ns = self.rematerialize_ns(id, &self.graph.storages[id]).unwrap_or(0);
        self.forget_bytes(id, How::Drop, Eviction::Drop, cost_ns);
        self.observer.counters.drops += 1;
    }

    /// Drops one storage of the host tier that is not in device memory: the one that takes the least time to recompute. The last resort
    /// before an op is refused because the host tier is full. Returns `false` if none can be recomputed, or if the rematerialization
    /// under way takes too long already.
    pub(in crate::pool) fn drop_absent(&mut self) -> bool {
        let rematerialization = &self.graph.rematerialization;
        let is_too_long = rematerialization.under_way && rematerialization.ops > MAX_REMATERIALIZED;
        if !self.settings.methods.recompute || is_too_long {
            return false;
        }
        let is_unused =
            |storage: &Storage| storage.uses.pins + storage.uses.host_pins + storage.uses.wanted == 0;
        let takes_room = |storage: &Storage| {
            storage.copies.in_tier(Tier::Host).is_some() && storage.copies.device.is_none()
        };
        let storages = self.graph.storages.iter();
        let absent = storages.filter(|(_, storage)| takes_room(storage) && is_unused(storage));
        let priced = absent.filter_map(|(id, storage)| {
            let cost_ns = self.rematerialize_ns(id, storage)?;
            Some((cost_ns, self.graph.storages.number(id), id))
        });
        let Some((.., id)) = priced.min() else { return false };
        self.graph.free_away(id, &mut self.memory);
        self.graph.claim_inputs(id);
        self.graph.join_component(id);
        self.observer.counters.drops += 1;
        true
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
        self.submitter.spend(|host| host.eviction_ns);
        self.observer.counters.evictions += 1;
    }
}
