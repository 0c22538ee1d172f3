//! What would have to be remade with a storage if its bytes were dropped: its evicted neighbourhood, Kirisame et al., *Dynamic Tensor
//! Rematerialization* (ICLR 2021), section 3. Of every storage that could leave its cost is asked whenever one does, and between two
//! evictions few change: so each is remembered until a change near it.

use smallvec::SmallVec;

use super::ids::StorageId;
use super::recipe::Graph;
use crate::pool::remat::remembered_cost::{KnownCost, MAX_CHANGES};

/// Storages near changes that are looked at, in all.
const MAX_INVALIDATED: usize = 16 * 1024;
/// Neighbours found without an allocation.
const FEW: usize = 32;

#[derive(Clone, Copy)]
enum Towards {
    Inputs,
    Outputs,
}

impl Graph {
    /// The time of the ops that made the storages without bytes that `id` would be remade through, or that would be remade
    /// through it, directly or by others: at most `most` in each direction, the nearest. From `max_ns` on it may be less.
    /// [`forget_changed_costs`](Graph::forget_changed_costs) comes first, with the same `most`.
    pub fn evicted_neighbourhood_ns(&self, id: StorageId, most: usize, max_ns: u64) -> u64 {
        let (around, age) = (&self.storages[id].lineage.neighbourhood_cost, self.storages.changes.age);
        let known = around.known.get();
        if known.age == age && (known.cost_ns < known.max_ns || known.cost_ns >= max_ns) {
            debug_assert_eq!(known.cost_ns, self.walked_ns(id, most, known.max_ns));
            return known.cost_ns;
        }
        let cost_ns = self.walked_ns(id, most, max_ns);
        around.known.set(KnownCost { age, cost_ns, max_ns });
        cost_ns
    }

    fn walked_ns(&self, id: StorageId, most: usize, max_ns: u64) -> u64 {
        let mut walk = Walk { graph: self, found: SmallVec::new(), end: most, cost_ns: 0, max_ns };
        walk.through(id, 0, Towards::Inputs);
        let ancestors = walk.found.len();
        walk.end = most.saturating_add(ancestors);
        walk.through(id, ancestors, Towards::Outputs);
        walk.cost_ns
    }

    /// Forgets what changes may have made untrue.
    pub fn forget_changed_costs(&mut self, most: usize) {
        let changes = &mut self.storages.changes;
        let mut ids = std::mem::take(&mut changes.ids);
        let are_few = ids.len() <= MAX_CHANGES;
        let mut left = MAX_INVALIDATED;
        if !are_few || !ids.iter().all(|&id| self.forget_costs_near(id, most, &mut left)) {
            self.storages.changes.age += 1;
        }
        ids.clear();
        self.storages.changes.ids = ids;
    }

    /// Forgets what is remembered of all that a walk can come from to a storage: each storage on its way is found by it. `false`:
    /// there are too many.
    fn forget_costs_near(&mut self, id: StorageId, most: usize, left: &mut usize) -> bool {
        if !self.storages.contains(id) {
            // What was around it has changed as well.
            return true;
        }
        self.storages[id].lineage.neighbourhood_cost.known.take();
        for towards in [Towards::Inputs, Towards::Outputs] {
            self.storages.changes.walks += 1;
            let walk = self.storages.changes.walks;
            let mut reached: SmallVec<[StorageId; FEW]> = [id].into_iter().collect();
            let mut from = 0;
            for _ in 0..most {
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

    /// What a storage is made from, or what is made from it, for as long as `more` says so. Whether it always did.
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

/// A walk from a storage through those without bytes.
struct Walk<'a> {
    graph: &'a Graph,
    found: SmallVec<[StorageId; FEW]>,
    /// How many are to be found.
    end: usize,
    /// Of those found; where the walk ends if it is so much.
    cost_ns: u64,
    max_ns: u64,
}

impl Walk<'_> {
    /// From `id`, then from what is found, `next` first.
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

    /// Whether the walk goes on.
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
    /// Blocks that memory is of.
    const ROOM: usize = 8;

    /// What a program does next.
    #[derive(Debug, Clone)]
    enum Step {
        Make,
        /// The sum of two that it holds; those are freed, or not.
        Add([(Index, bool); 2]),
        Free(Index),
        /// What is remembered is compared with a walk that may end early.
        Ask(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            1 => Just(Step::Make),
            8 => any::<[(Index, bool); 2]>().prop_map(Step::Add),
            2 => any::<Index>().prop_map(Step::Free),
            4 => prop_oneof![0..200_000u64, Just(u64::MAX)].prop_map(Step::Ask),
        ];
        prop::collection::vec(step, 1..300)
    }

    /// All that could leave are asked for.
    fn ask(pool: &mut Pool, max_ns: u64) {
        let CostModel::Neighbourhood { most } = pool.follower.rule().knows() else {
            panic!("the default knows it")
        };
        pool.graph.forget_changed_costs(most);
        let graph = &pool.graph;
        for id in graph.storages.residents() {
            let known_ns = graph.evicted_neighbourhood_ns(id, most, max_ns);
            let all_ns = graph.walked_ns(id, most, u64::MAX);
            let is_known = known_ns == all_ns || (max_ns..=all_ns).contains(&known_ns);
            assert!(is_known, "{known_ns} are remembered of {all_ns}, where {max_ns} are asked for");
        }
    }

    proptest! {
        #[test]
        fn what_is_remembered_is_true(steps in steps(), offload: bool) {
            let engine = Arc::new(SimEngine::new(&profiles()[0]));
            let config = Config::new().offload(offload).budget_bytes(ROOM * 4 * SIZE).host_limit_bytes(1 << 30);
            let mut pool =
                Pool::new(OvercommitDevice::Host(0), engine.clone(), config.resolve(engine.props()).unwrap());
            let (shape, dtype) = (Shape::new(&[SIZE]), Dtype::F32);
            let view = View::contiguous(dtype, shape);
            let mut held = Vec::new();
            for step in steps {
                match step {
                    Step::Ask(max_ns) => ask(&mut pool, max_ns),
                    Step::Free(index) if !held.is_empty() => {
                        let id = held.swap_remove(index.index(held.len()));
                        pool.release(id);
                    }
                    Step::Add(operands) if held.len() > 2 => {
                        let mut inputs = Vec::new();
                        for (index, consumed) in operands {
                            let at = index.index(held.len());
                            let id = if consumed { held.swap_remove(at) } else { held[at] };
                            inputs.push(Input { id, view, consumed });
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
