//! The cost of a storage's evicted neighbourhood: the evicted storages that it would be rematerialized through, or that would be
//! rematerialized through it (Kirisame et al., *Dynamic Tensor Rematerialization*, ICLR 2021, section 3).
//!
//! Each eviction asks for the costs of all candidates, and few of them change between two evictions. So each cost is remembered
//! until something near its storage changes.

use smallvec::SmallVec;

use super::ids::StorageId;
use super::recipe::Graph;
use crate::pool::remat::remembered_cost::{KnownCost, MAX_CHANGES};

/// The most storages near changes whose costs are forgotten one by one. If there are more, all costs are forgotten.
const MAX_INVALIDATED: usize = 16 * 1024;
/// How many neighbours are found without an allocation.
const FEW: usize = 32;

/// The direction of a walk.
#[derive(Clone, Copy)]
enum Towards {
    /// From a storage to those that it is made from.
    Inputs,
    /// From a storage to those that are made from it.
    Outputs,
}

impl Graph {
    /// The predicted time of the ops that made the evicted neighbourhood of `id`. In each direction, at most the nearest
    /// `max_per_direction` storages count. A result of `max_ns` or more is only a lower bound of the cost.
    ///
    /// The caller must have called [`forget_changed_costs`](Graph::forget_changed_costs) with the same `max_per_direction`.
    pub fn evicted_neighbourhood_ns(&self, id: StorageId, max_per_direction: usize, max_ns: u64) -> u64 {
        let (remembered, age) = (&self.storages[id].lineage.neighbourhood_cost, self.storages.changes.age);
        let known = remembered.known.get();
        if known.age == age && (known.cost_ns < known.max_ns || known.cost_ns >= max_ns) {
            debug_assert_eq!(known.cost_ns, self.walked_ns(id, max_per_direction, known.max_ns));
            return known.cost_ns;
        }
        let cost_ns = self.walked_ns(id, max_per_direction, max_ns);
        remembered.known.set(KnownCost { age, cost_ns, max_ns });
        cost_ns
    }

    /// Computes the cost by a walk from the storage.
    fn walked_ns(&self, id: StorageId, max_per_direction: usize, max_ns: u64) -> u64 {
        let mut walk =
            Walk { graph: self, found: SmallVec::new(), end: max_per_direction, cost_ns: 0, max_ns };
        walk.through(id, 0, Towards::Inputs);
        let ancestors = walk.found.len();
        walk.end = max_per_direction.saturating_add(ancestors);
        walk.through(id, ancestors, Towards::Outputs);
        walk.cost_ns
    }

    /// Forgets the remembered costs that may be wrong after the changes so far.
    pub fn forget_changed_costs(&mut self, max_per_direction: usize) {
        let changes = &mut self.storages.changes;
        let mut ids = std::mem::take(&mut changes.ids);
        let are_few = ids.len() <= MAX_CHANGES;
        let mut left = MAX_INVALIDATED;
        if !are_few || !ids.iter().all(|&id| self.forget_costs_near(id, max_per_direction, &mut left)) {
            self.storages.changes.age += 1;
        }
        ids.clear();
        self.storages.changes.ids = ids;
    }

    /// Forgets the costs of all storages from which a walk can reach a changed storage. Such a walk passes only evicted storages,
    /// so a walk from the changed storage through evicted ones finds its beginning. Returns `false` if there are too many.
    fn forget_costs_near(&mut self, id: StorageId, max_per_direction: usize, left: &mut usize) -> bool {
        if !self.storages.contains(id) {
            // Its neighbours have changed as well, so walks from them do what is needed.
            return true;
        }
        self.storages[id].lineage.neighbourhood_cost.known.take();
        for towards in [Towards::Inputs, Towards::Outputs] {
            self.storages.changes.walks += 1;
            let walk = self.storages.changes.walks;
            let mut reached: SmallVec<[StorageId; FEW]> = [id].into_iter().collect();
            let mut from = 0;
            for _ in 0..max_per_direction {
                let to = reached.len();
                for at in from..to {
                    self.each_neighbour(reached[at], towards, |neighbour| {
                        let storage = &self.storages[neighbour];
                        if storage.lineage.neighbourhood_cost.last_walk.replace(walk) != walk {
                            storage.lineage.neighbourhood_cost.known.take();
                            *left = left.saturating_sub(1);
                            if !storage.stored() {
                                reached.push(neighbour);
                            }
                        }
                        *left > 0
                    });
                }
                from = to;
            }
        }
        *left > 0
    }

    /// Calls `more` for each storage that `id` is made from, or that is made from it, until it returns `false`. Returns whether
    /// it never did.
    fn each_neighbour(
        &self,
        id: StorageId,
        towards: Towards,
        mut more: impl FnMut(StorageId) -> bool,
    ) -> bool {
        let storage = &self.storages[id];
        match towards {
            Towards::Inputs => storage
                .lineage
                .recipe
                .is_none_or(|recipe| self.recipe(recipe).inputs.iter().all(|&id| more(id))),
            Towards::Outputs => storage
                .lineage
                .consumers
                .iter()
                .all(|&consumer| self.recipe(consumer).outputs.iter().flatten().all(|&id| more(id))),
        }
    }
}

/// A walk from a storage through storages without bytes.
struct Walk<'a> {
    graph: &'a Graph,
    found: SmallVec<[StorageId; FEW]>,
    /// The number of storages after which the walk ends.
    end: usize,
    /// The cost of the storages that were found.
    cost_ns: u64,
    /// The cost at which the walk ends.
    max_ns: u64,
}

impl Walk<'_> {
    /// Visits the neighbours of `id`, and then the neighbours of what is found, from index `next` on.
    fn through(&mut self, id: StorageId, mut next: usize, towards: Towards) {
        let graph = self.graph;
        let mut at = Some(id);
        while let Some(id) = at {
            if !graph.each_neighbour(id, towards, |neighbour| self.add(neighbour)) {
                return;
            }
            at = self.found.get(next).copied();
            next += 1;
        }
    }

    /// Adds a storage if it has no bytes and is not found yet. Returns whether the walk goes on.
    fn add(&mut self, id: StorageId) -> bool {
        if self.found.len() < self.end && !self.graph.storages[id].stored() && !self.found.contains(&id) {
            self.found.push(id);
            self.cost_ns += self.graph.own_ns(id);
        }
        self.found.len() < self.end && self.cost_ns < self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use proptest::sample::Index;

    use crate::OvercommitDevice;
    use crate::config::Config;
    use crate::engine::Engine;
    use crate::engine::sim::{SimEngine, profiles};
    use crate::op::{Binary, Dtype, Op, Scalar, Shape, View};
    use crate::policy::CostModel;
    use crate::pool::Pool;
    use crate::pool::input::Input;

    const SIZE: usize = 1024;
    /// How many storages device memory has room for.
    const ROOM: usize = 8;

    /// A step of a program.
    #[derive(Debug, Clone)]
    enum Action {
        /// Makes a storage.
        Make,
        /// Adds two storages that it holds. Each is consumed or not.
        Add([(Index, bool); 2]),
        /// Frees a storage.
        Free(Index),
        /// Compares remembered costs with those of full walks. The number is the cost at which a walk may end early.
        Ask(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Action>> {
        let step = prop_oneof![
            1 => Just(Action::Make),
            8 => any::<[(Index, bool); 2]>().prop_map(Action::Add),
            2 => any::<Index>().prop_map(Action::Free),
            4 => prop_oneof![0..200_000u64, Just(u64::MAX)].prop_map(Action::Ask),
        ];
        prop::collection::vec(step, 1..300)
    }

    /// Asks for the costs of all resident storages.
    fn ask(pool: &mut Pool, max_ns: u64) {
        let CostModel::Neighbourhood { most: max_per_direction } = pool.follower.rule().cost_model() else {
            panic!("the default policy asks for neighbourhoods")
        };
        pool.graph.forget_changed_costs(max_per_direction);
        let graph = &pool.graph;
        for id in graph.storages.residents() {
            let known_ns = graph.evicted_neighbourhood_ns(id, max_per_direction, max_ns);
            let all_ns = graph.walked_ns(id, max_per_direction, u64::MAX);
            let is_known = known_ns == all_ns || (max_ns..=all_ns).contains(&known_ns);
            assert!(
                is_known,
                "{known_ns} ns are remembered, the cost is {all_ns} ns, and the limit is {max_ns} ns"
            );
        }
    }

    proptest! {
        #[test]
        fn remembered_costs_are_right(steps in steps(), offload: bool) {
            let engine = Arc::new(SimEngine::new(&profiles()[0]));
            let config = Config::new().offload(offload).budget_bytes(ROOM * 4 * SIZE).host_limit_bytes(1 << 30);
            let mut pool =
                Pool::new(OvercommitDevice::Host(0), engine.clone(), config.resolve(engine.props()).unwrap());
            let (shape, dtype) = (Shape::new(&[SIZE]), Dtype::F32);
            let view = View::contiguous(dtype, shape);
            let mut held = Vec::new();
            for step in steps {
                match step {
                    Action::Ask(max_ns) => ask(&mut pool, max_ns),
                    Action::Free(index) if !held.is_empty() => {
                        let id = held.swap_remove(index.index(held.len()));
                        pool.release(id);
                    }
                    Action::Add(operands) if held.len() > 2 => {
                        let mut inputs = Vec::new();
                        for (index, consumed) in operands {
                            let at = index.index(held.len());
                            let id = if consumed { held.swap_remove(at) } else { held[at] };
                            inputs.push(Input { consumed, ..Input::read(id, view) });
                        }
                        let made = pool.run(&Op::Binary(Binary::Add), &inputs);
                        held.extend(made.into_iter().flatten().map(|(id, _)| id));
                    }
                    _ => {
                        let made = pool.run(&Op::Fill { shape, dtype, value: Scalar::Int(1) }, &[]);
                        held.extend(made.into_iter().flatten().map(|(id, _)| id));
                    }
                }
            }
            ask(&mut pool, u64::MAX);
        }
    }
}
