//! What eviction costs, for each method that is allowed.

use crate::engine::Tier;
use crate::policy::{CostModel, EvictionCosts};
use crate::pool::Pool;
use crate::pool::remat::ids::{RecipeId, StorageId};
use crate::pool::remat::storage::Storage;
use crate::schedule::Eviction;

impl Pool {
    /// The policy's eviction method for a storage without a host copy. A storage that is recomputed first is dropped,
    /// unless the policy never drops.
    pub(in crate::pool) fn eviction_method(&self, id: StorageId, host_room: bool) -> Option<Eviction> {
        let storage = &self.graph.storages[id];
        let allowed = self.settings.methods;
        let move_ns = (host_room && self.follower.may_move(storage)).then(|| self.move_ns(storage));
        let rematerialize_ns = if allowed.recompute { self.rematerialize_ns(id, storage) } else { None };
        let is_dropped = (self.is_recomputed_first(storage) || self.follower.is_dropped(storage))
            && rematerialize_ns.is_some();
        let by_drop = self
            .follower
            .rule()
            .method(EvictionCosts { move_ns: None, rematerialize_ns })
            .filter(|_| is_dropped);
        by_drop.or_else(|| self.follower.rule().method(EvictionCosts { move_ns, rematerialize_ns }))
    }

    /// Whether a storage is dropped before others leave. A plan that is followed overrides this.
    fn is_recomputed_first(&self, storage: &Storage) -> bool {
        storage.is_recomputed_first() && !self.follower.is_following()
    }

    /// Whether a storage leaves before others, because it is recomputed first and can be dropped.
    pub(in crate::pool) fn goes_first(&self, id: StorageId) -> bool {
        self.is_recomputed_first(&self.graph.storages[id])
            && self.eviction_method(id, false) == Some(Eviction::Drop)
    }

    /// The predicted time to rematerialize a resident storage if its bytes were dropped now. `None` means that they may
    /// not be dropped: the storage has no recipe, a rematerialization under way reads it, or an op on the way exceeds
    /// the budget.
    ///
    /// If evicted storages claim it, bringing one of those back would take nested rematerializations. That is allowed
    /// only if the policy weighs their cost, the program asked for recomputation, or there is no other eviction method.
    pub(in crate::pool) fn rematerialize_ns(&self, id: StorageId, storage: &Storage) -> Option<u64> {
        let is_recomputed_first = self.is_recomputed_first(storage);
        if storage.lineage.recipe.is_none()
            || !self.graph.rematerialization.may_drop(self.settings.methods.offloads_all())
            || self.graph.is_wanted(storage)
            || (storage.uses.claims > 0 && !is_recomputed_first && !self.may_drop_claimed())
        {
            return None;
        }
        if !self.follower.may_move(storage) {
            return self.replay_ns(storage.lineage.recipe?);
        }
        // Follow the whole chain of recipes, because it grows when storages on the way are dropped.
        let order = self.graph.rematerialization_order(id, !is_recomputed_first)?;
        order.iter().map(|&recipe| self.replay_ns(recipe)).sum()
    }

    /// Whether storages that evicted ones claim may be dropped too.
    fn may_drop_claimed(&self) -> bool {
        self.follower.is_following()
            || self.follower.rule().cost_model() != CostModel::Recency
            || !self.settings.methods.offloads_all()
    }

    /// The predicted time of running a recipe once, or `None` if it exceeds the budget.
    fn replay_ns(&self, id: RecipeId) -> Option<u64> {
        let recipe = self.graph.recipe(id);
        let fits = self.graph.working_set_bytes(&recipe.inputs, &recipe.instruction, 0)
            <= self.memory.device.limit_bytes();
        fits.then_some(recipe.instruction.launch_ns)
    }

    /// The cost of moving a storage to the host and back: the predicted time, including the wait for earlier copies.
    fn move_ns(&self, storage: &Storage) -> u64 {
        let move_ns = self.offload_wait_ns() + self.round_trip_ns(storage.size_bytes);
        self.settings.methods.price_of_moving(move_ns)
    }

    /// Whether storages go to other devices before they go to the host.
    pub(in crate::pool) fn prefers_peers(&self) -> bool {
        let props = self.submitter.engine.props();
        self.settings.peers.as_ref().is_some_and(|peers| peers.rate(props) > props.link_bytes_per_second())
    }

    /// The predicted time to copy a storage away and back: to another device or to the host, and on to the disk if neither has room
    /// for it.
    pub(in crate::pool) fn round_trip_ns(&self, size_bytes: usize) -> u64 {
        let props = self.submitter.engine.props();
        let peers = self.settings.peers.as_ref().filter(|_| self.memory.peer_room_bytes() >= size_bytes);
        let is_full = self.memory.host_room_bytes() < size_bytes;
        let of_link_ns = props.offload_ns(size_bytes) + props.fetch_ns(size_bytes);
        match (peers, &self.settings.disk) {
            (Some(peers), _) if is_full || self.prefers_peers() => 2 * peers.copy_ns(props, size_bytes),
            (_, Some(disk)) if is_full => of_link_ns + 2 * disk.copy_ns(size_bytes),
            _ => of_link_ns,
        }
    }

    /// The predicted time to copy a storage back that is away.
    pub(in crate::pool) fn return_ns(&self, storage: &Storage) -> u64 {
        self.copies_ns(storage)[1]
    }

    /// The predicted times of the copies of a storage to where it is, and back.
    pub(in crate::pool) fn copies_ns(&self, storage: &Storage) -> [u64; 2] {
        let (props, size_bytes) = (self.submitter.engine.props(), storage.size_bytes);
        let of_link_ns = [props.offload_ns(size_bytes), props.fetch_ns(size_bytes)];
        let [in_memory, on_peer, on_disk] = Tier::AWAY.map(|tier| storage.copies.in_tier(tier).is_some());
        match (&self.settings.peers, &self.settings.disk) {
            (Some(peers), _) if on_peer && !in_memory => [peers.copy_ns(props, size_bytes); 2],
            (_, Some(disk)) if on_disk && !in_memory => of_link_ns.map(|ns| ns + disk.copy_ns(size_bytes)),
            _ => of_link_ns,
        }
    }

    /// The predicted time until the offloads under way are done.
    pub(in crate::pool) fn offload_wait_ns(&self) -> u64 {
        // If the host tier is short of room, decisions must not depend on earlier copies, so that the same program fits
        // every time.
        if self.memory.is_roomy() {
            self.submitter.offloading_until_ns.saturating_sub(self.observer.computed_ns)
        } else {
            0
        }
    }
}
