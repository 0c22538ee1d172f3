//! What it costs to evict a storage, by each method that is allowed.

use crate::policy::{CostModel, EvictionCosts};
use crate::pool::Pool;
use crate::pool::remat::ids::{RecipeId, StorageId};
use crate::pool::remat::storage::Storage;
use crate::schedule::Eviction;

impl Pool {
    /// How the policy evicts a storage that is not clean. One that is recomputed first is dropped, if the policy ever drops.
    pub(in crate::pool) fn how(&self, id: StorageId, host_room: bool) -> Option<Eviction> {
        let storage = &self.graph.storages[id];
        let allowed = self.settings.ways;
        let move_ns = (host_room && self.follower.may_move(storage)).then(|| self.move_ns(storage));
        let rematerialize_ns = if allowed.recompute { self.rematerialize_ns(id, storage) } else { None };
        let dropped = (self.is_recomputed_first(storage) || self.follower.is_dropped(storage))
            && rematerialize_ns.is_some();
        let only =
            self.follower.rule().how(EvictionCosts { move_ns: None, rematerialize_ns }).filter(|_| dropped);
        only.or_else(|| self.follower.rule().how(EvictionCosts { move_ns, rematerialize_ns }))
    }

    /// Whether a storage's bytes are to be dropped before others leave. A plan knows better.
    fn is_recomputed_first(&self, storage: &Storage) -> bool {
        storage.is_recomputed_first() && !self.follower.is_following()
    }

    /// Whether that can be.
    pub(in crate::pool) fn goes_first(&self, id: StorageId) -> bool {
        self.is_recomputed_first(&self.graph.storages[id]) && self.how(id, false) == Some(Eviction::Drop)
    }

    /// Predicted time to make a resident storage again if its bytes were dropped now; `None` if they may not be: no
    /// recipe, a recomputation under way reads them, or an op on the way does not fit the budget. Where evicted storages rely
    /// on it, bringing one of those back would take a recomputation within a recomputation: only where the policy weighs
    /// that, the program asked for it, or there is no other way.
    pub(in crate::pool) fn rematerialize_ns(&self, id: StorageId, storage: &Storage) -> Option<u64> {
        let is_first = self.is_recomputed_first(storage);
        if storage.lineage.recipe.is_none()
            || !self.graph.rematerialization.may_drop(self.settings.ways.offloads_all())
            || self.graph.is_wanted(storage)
            || (storage.uses.claims > 0 && !is_first && !self.nests())
        {
            return None;
        }
        if !self.follower.may_move(storage) {
            return self.replay_ns(storage.lineage.recipe?);
        }
        // A chain that may be long is one that grows: what is dropped on the way lengthens others.
        let order = self.graph.rematerialization_order(id, !is_first)?;
        order.iter().map(|&recipe| self.replay_ns(recipe)).sum()
    }

    /// Whether what evicted storages rely on may be dropped too.
    fn nests(&self) -> bool {
        self.follower.is_following()
            || self.follower.rule().knows() != CostModel::Recency
            || !self.settings.ways.offloads_all()
    }

    fn replay_ns(&self, id: RecipeId) -> Option<u64> {
        let recipe = self.graph.recipe(id);
        let fits = self.graph.working_set_bytes(&recipe.inputs, &recipe.instruction, false)
            <= self.memory.device.limit_bytes();
        fits.then_some(recipe.instruction.launch_ns)
    }

    /// What it costs to move a storage away and back: the predicted time, once the copies before it are done.
    fn move_ns(&self, storage: &Storage) -> u64 {
        let move_ns = self.offload_wait_ns() + 2 * self.submitter.engine.props().copy_ns(storage.size_bytes);
        self.settings.ways.price_of_moving(move_ns)
    }

    /// Predicted time until the copies to the host that are under way are done.
    pub(in crate::pool) fn offload_wait_ns(&self) -> u64 {
        // Where room is short, the same program is to fit every time, whatever was copied before.
        if self.memory.is_roomy() {
            self.submitter.offloading_until_ns.saturating_sub(self.observer.computed_ns)
        } else {
            0
        }
    }
}
