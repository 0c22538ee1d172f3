//! What the policy is told of the storages that could leave, and which of them it picks.

use smallvec::SmallVec;

use crate::engine::{Props, aligned};
use crate::liveness::NextUse;
use crate::policy::{Candidate, CostModel};
use crate::pool::Pool;
use crate::pool::follow::plans::Following;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::{ResidentFilter, Storage};
use crate::schedule::{EvictionOrder, WeightedRule};

/// Storages that are looked at when one is to leave, if there are no more, without an allocation.
const MOST_CANDIDATES: usize = 256;

impl Pool {
    /// What the policy evicts next of the resident storages that are not pinned and may go.
    pub(in crate::pool) fn pick(
        &mut self,
        need_bytes: usize,
        may_go: impl Fn(&Self, StorageId) -> bool,
    ) -> Option<StorageId> {
        if let CostModel::Neighbourhood { most } = self.follower.rule().knows() {
            self.graph.forget_changed_costs(most);
        }
        let pool = &*self;
        let may_go = |id| may_go(pool, id);
        let first = |id| pool.goes_first(id) && may_go(id);
        [pool.follower.rule().least_bytes(need_bytes), 0].into_iter().find_map(|min_bytes| {
            let picked =
                pool.pick_of(need_bytes, ResidentFilter { min_bytes, recomputed_first: true }, &first);
            picked.or_else(|| {
                pool.pick_of(need_bytes, ResidentFilter { min_bytes, recomputed_first: false }, &may_go)
            })
        })
    }

    /// What the policy evicts next of some residents.
    pub(in crate::pool) fn pick_of(
        &self,
        need_bytes: usize,
        residents: ResidentFilter,
        may_go: &impl Fn(StorageId) -> bool,
    ) -> Option<StorageId> {
        let candidates = Candidates::of(self);
        if let Some(weighed) = self.follower.rule().weighs() {
            return candidates.lightest(weighed, residents, may_go);
        }
        let storages = &self.graph.storages;
        let mut ids: SmallVec<[StorageId; MOST_CANDIDATES]> = SmallVec::new();
        let evictable = storages
            .in_order(residents)
            .filter(|&id| self.follower.can_leave(&self.graph, &storages[id]) && may_go(id));
        let mut evictable = evictable.map(|id| {
            ids.push(id);
            let storage = &storages[id];
            let cost_ns = candidates.cost_ns(id, storage, u64::MAX);
            candidates.candidate(storage, candidates.turn(storage), cost_ns)
        });
        let index = self.follower.rule().pick(need_bytes, &mut evictable)?;
        Some(ids[index])
    }
}

/// What is the same for all candidates of one eviction: thousands may be looked at.
struct Candidates<'a> {
    pool: &'a Pool,
    knows: CostModel,
    /// The schedule that is followed.
    following: Option<&'a Following>,
    props: &'a Props,
    offload_wait_ns: u64,
}

impl<'a> Candidates<'a> {
    fn of(pool: &'a Pool) -> Self {
        Candidates {
            pool,
            knows: pool.follower.rule().knows(),
            following: pool.follower.plans.active(),
            props: pool.submitter.engine.props(),
            offload_wait_ns: pool.offload_wait_ns(),
        }
    }

    /// Of those whose turn comes first the one that weighs the least; of equals the least recently used.
    fn lightest(
        &self,
        weighed: &WeightedRule,
        residents: ResidentFilter,
        may_go: &impl Fn(StorageId) -> bool,
    ) -> Option<StorageId> {
        let storages = &self.pool.graph.storages;
        let mut lightest: Option<(EvictionOrder, f64, u64)> = None;
        let mut picked = None;
        let mut looks = 0;
        for id in storages.in_any_order(residents) {
            looks += 1;
            let storage = &storages[id];
            let turn = self.turn(storage);
            if lightest.is_some_and(|lightest| turn > lightest.0)
                || !self.pool.follower.can_leave(&self.pool.graph, storage)
            {
                continue;
            }
            let gain = weighed.gain(&self.candidate(storage, turn, 0));
            // What costs more weighs more.
            let same_turn = lightest.filter(|lightest| lightest.0 == turn);
            let most_ns =
                same_turn.map_or(u64::MAX, |(_, weight, _)| ((weight * gain) as u64).saturating_add(1));
            let cost_ns = self.cost_ns(id, storage, most_ns);
            let weight = (turn, weighed.weight(cost_ns, gain), storage.recency());
            if lightest.is_none_or(|lightest| weight < lightest) && may_go(id) {
                (lightest, picked) = (Some(weight), Some(id));
            }
        }
        self.pool.observer.scanned(looks);
        picked
    }

    fn candidate(&self, storage: &Storage, turn: EvictionOrder, cost_ns: u64) -> Candidate {
        Candidate {
            size_bytes: aligned(storage.size_bytes),
            idle_ns: self.pool.observer.computed_ns - storage.access.used_ns,
            cost_ns,
            clean: storage.copies.host.is_some(),
            next_use_ops: self.next_use_ops(storage),
            turn,
        }
    }

    /// When the schedule has a storage leave.
    fn turn(&self, storage: &Storage) -> EvictionOrder {
        let interval = self.following.and_then(|following| following.scheduled_as(storage));
        interval.map_or(EvictionOrder::Any, |interval| interval.turn)
    }

    /// The cost of having a storage back; if that is more than `most_ns`, anything that is.
    fn cost_ns(&self, id: StorageId, storage: &Storage, most_ns: u64) -> u64 {
        if self.knows == CostModel::Recency {
            return 0;
        }
        let pool = self.pool;
        let copy_ns = self.props.copy_ns(storage.size_bytes);
        if storage.copies.host.is_some() {
            let fetch_ns = if pool.follower.fetch_is_scheduled(storage) { 0 } else { copy_ns };
            return storage.access.clean_at_ns.saturating_sub(pool.observer.computed_ns) + fetch_ns;
        }
        let move_ns = pool.settings.ways.price_of_moving(self.offload_wait_ns + 2 * copy_ns);
        let rematerialize_ns = |most_ns: u64| {
            let own_ns = pool.graph.own_ns(id);
            own_ns
                + if own_ns > most_ns { 0 } else { self.around_ns(id, (most_ns - own_ns).saturating_add(1)) }
        };
        match (
            pool.follower.may_move(storage),
            pool.settings.ways.recompute && storage.lineage.recipe.is_some(),
        ) {
            (false, _) => rematerialize_ns(most_ns),
            (true, true) => rematerialize_ns(most_ns.min(move_ns)).min(move_ns),
            (true, false) => move_ns,
        }
    }

    /// The time of what a storage would be remade through, and of what would be through it. From `most_ns` on it may be less.
    fn around_ns(&self, id: StorageId, most_ns: u64) -> u64 {
        let graph = &self.pool.graph;
        match self.knows {
            CostModel::Neighbourhood { most } => graph.evicted_neighbourhood_ns(id, most, most_ns),
            CostModel::Components => graph.neighbouring_components_ns(id),
            CostModel::Recency => 0,
        }
    }

    /// Ops until a storage's next use, if that is known: from a plan that is followed, or beforehand.
    fn next_use_ops(&self, storage: &Storage) -> Option<u64> {
        let pool = self.pool;
        let planned = match (storage.access.next_use, self.following) {
            (NextUse::At(op), Some(_)) => {
                Some(op.saturating_sub(pool.follower.streams[storage.access.stream].ops))
            }
            // After all that the schedule knows of.
            (NextUse::Never, Some(following)) => Some(2 * following.schedule.ops.len() as u64),
            _ => None,
        };
        let oracle = pool.settings.oracle.as_ref();
        planned.or_else(|| oracle.map(|known| known.next_use_ops(storage.number, pool.observer.clock)))
    }
}
