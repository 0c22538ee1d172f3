//! What the policy is told of the candidates for eviction, and which of them it picks.

use smallvec::SmallVec;

use crate::engine::aligned;
use crate::liveness::NextUse;
use crate::policy::{Candidate, CostModel};
use crate::pool::Pool;
use crate::pool::follow::active_plans::ActivePlan;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::{ResidentFilter, Storage};
use crate::schedule::{EvictionOrder, WeightedRule};

/// The number of candidates that fit in an inline buffer. More take an allocation.
const INLINE_CANDIDATES: usize = 256;

impl Pool {
    /// The storage that the policy evicts next, out of the residents that are not pinned and that `may_go` accepts.
    pub(in crate::pool) fn pick(
        &mut self,
        need_bytes: usize,
        may_go: impl Fn(&Self, StorageId) -> bool,
    ) -> Option<StorageId> {
        if let CostModel::Neighbourhood { most } = self.follower.rule().cost_model() {
            self.graph.forget_changed_costs(most);
        }
        let pool = &*self;
        let may_go = |id| may_go(pool, id);
        let first = |id| pool.goes_first(id) && may_go(id);
        [pool.follower.rule().least_bytes(need_bytes), 0].into_iter().find_map(|least_bytes| {
            let picked = pool.pick_from(
                need_bytes,
                ResidentFilter { min_bytes: least_bytes, recomputed_first: true },
                &first,
            );
            picked.or_else(|| {
                pool.pick_from(
                    need_bytes,
                    ResidentFilter { min_bytes: least_bytes, recomputed_first: false },
                    &may_go,
                )
            })
        })
    }

    /// The storage that the policy evicts next out of some residents.
    pub(in crate::pool) fn pick_from(
        &self,
        need_bytes: usize,
        residents: ResidentFilter,
        may_go: &impl Fn(StorageId) -> bool,
    ) -> Option<StorageId> {
        let candidates = Candidates::new(self);
        if let Some(weighed) = self.follower.rule().weighs() {
            return candidates.lightest(weighed, residents, may_go);
        }
        let storages = &self.graph.storages;
        let mut ids: SmallVec<[StorageId; INLINE_CANDIDATES]> = SmallVec::new();
        let evictable = storages
            .in_order(residents)
            .filter(|&id| self.follower.can_leave(&self.graph, &storages[id]) && may_go(id));
        let mut evictable = evictable.map(|id| {
            ids.push(id);
            let storage = &storages[id];
            let cost_ns = candidates.cost_ns(id, storage, u64::MAX);
            candidates.candidate(storage, candidates.eviction_order(storage), cost_ns)
        });
        let index = self.follower.rule().pick(need_bytes, &mut evictable)?;
        Some(ids[index])
    }
}

/// What all candidates of one eviction have in common. It is computed once, because there may be thousands of
/// candidates.
struct Candidates<'a> {
    pool: &'a Pool,
    cost_model: CostModel,
    /// The plan that the pool follows.
    plan: Option<&'a ActivePlan>,
    offload_wait_ns: u64,
}

impl<'a> Candidates<'a> {
    fn new(pool: &'a Pool) -> Self {
        Candidates {
            pool,
            cost_model: pool.follower.rule().cost_model(),
            plan: pool.follower.active_plans.followed(),
            offload_wait_ns: pool.offload_wait_ns(),
        }
    }

    /// The candidate of the least weight among those that come first in the eviction order. Of equals, it is the least
    /// recently used.
    fn lightest(
        &self,
        weighed: &WeightedRule,
        residents: ResidentFilter,
        may_go: &impl Fn(StorageId) -> bool,
    ) -> Option<StorageId> {
        let storages = &self.pool.graph.storages;
        let mut lightest: Option<(EvictionOrder, f64, u64)> = None;
        let mut picked = None;
        let mut scanned = 0;
        for id in storages.in_any_order(residents) {
            scanned += 1;
            let storage = &storages[id];
            let order = self.eviction_order(storage);
            if lightest.is_some_and(|lightest| order > lightest.0)
                || !self.pool.follower.can_leave(&self.pool.graph, storage)
            {
                continue;
            }
            let gain = weighed.gain(&self.candidate(storage, order, 0));
            // A cost beyond this bound cannot give the least weight, so that its exact value does not matter.
            let same_order = lightest.filter(|lightest| lightest.0 == order);
            let max_ns =
                same_order.map_or(u64::MAX, |(_, weight, _)| ((weight * gain) as u64).saturating_add(1));
            let cost_ns = self.cost_ns(id, storage, max_ns);
            let weight = (order, weighed.weight(cost_ns, gain), storage.recency());
            if lightest.is_none_or(|lightest| weight < lightest) && may_go(id) {
                (lightest, picked) = (Some(weight), Some(id));
            }
        }
        self.pool.observer.note_scanned(scanned);
        picked
    }

    fn candidate(&self, storage: &Storage, order: EvictionOrder, cost_ns: u64) -> Candidate {
        Candidate {
            size_bytes: aligned(storage.size_bytes),
            idle_ns: self.pool.observer.computed_ns - storage.access.used_ns,
            cost_ns,
            clean: storage.copies.away.is_some(),
            next_use_ops: self.next_use_ops(storage),
            order,
        }
    }

    /// The storage's place in the eviction order.
    fn eviction_order(&self, storage: &Storage) -> EvictionOrder {
        let interval = self.plan.and_then(|plan| plan.scheduled_as(storage));
        interval.map_or(EvictionOrder::Any, |interval| interval.order)
    }

    /// The cost of having a storage back. A cost above `max_ns` may be returned as any other value above `max_ns`.
    fn cost_ns(&self, id: StorageId, storage: &Storage, max_ns: u64) -> u64 {
        if self.cost_model == CostModel::Recency {
            return 0;
        }
        let pool = self.pool;
        if storage.copies.away.is_some() {
            let fetch_ns =
                if pool.follower.fetch_is_scheduled(storage) { 0 } else { pool.return_ns(storage) };
            return storage.access.clean_at_ns.saturating_sub(pool.observer.computed_ns) + fetch_ns;
        }
        let move_ns = pool
            .settings
            .methods
            .price_of_moving(self.offload_wait_ns + pool.round_trip_ns(storage.size_bytes));
        let rematerialize_ns = |max_ns: u64| {
            let own_ns = pool.graph.own_ns(id);
            if own_ns > max_ns {
                return own_ns;
            }
            own_ns + self.neighbourhood_ns(id, (max_ns - own_ns).saturating_add(1))
        };
        match (
            pool.follower.may_move(storage),
            pool.settings.methods.recompute && storage.lineage.recipe.is_some(),
        ) {
            (false, _) => rematerialize_ns(max_ns),
            (true, true) => rematerialize_ns(max_ns.min(move_ns)).min(move_ns),
            (true, false) => move_ns,
        }
    }

    /// The time of the storage's evicted neighbourhood. From `max_ns` on, the returned time may be too small.
    fn neighbourhood_ns(&self, id: StorageId, max_ns: u64) -> u64 {
        let graph = &self.pool.graph;
        match self.cost_model {
            CostModel::Neighbourhood { most } => graph.evicted_neighbourhood_ns(id, most, max_ns),
            CostModel::Components => graph.neighbouring_components_ns(id),
            CostModel::Recency => 0,
        }
    }

    /// The number of ops until the storage's next use, if the followed plan, the oracle or the iteration before tells it.
    fn next_use_ops(&self, storage: &Storage) -> Option<u64> {
        let pool = self.pool;
        let oracle = pool.settings.oracle.as_ref().filter(|_| self.plan.is_none());
        match (oracle, storage.access.next_use) {
            (Some(known), _) => Some(known.next_use_ops(storage.number, pool.observer.clock)),
            (None, NextUse::At(op)) => {
                Some(op.saturating_sub(pool.follower.streams[storage.access.stream].ops))
            }
            (None, NextUse::Never) => Some(u64::MAX),
            (None, NextUse::Unknown) => None,
        }
    }
}
