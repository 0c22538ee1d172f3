//! Recipes: how a storage is made again, and which records that keeps alive.
//!
//! A recipe keeps its inputs *known* (their records exist), not stored. When a storage is evicted by dropping its bytes,
//! its recipe *claims* its inputs: a claimed storage is active, so it stays stored, or stays recomputable by claiming its
//! own inputs in turn. When a storage that no recipe makes loses its last handle and claim, its bytes go, and with them
//! every recipe that reads it, directly or through others. So a record exists only while something can still use it.

use std::sync::Arc;

use hashbrown::HashSet;
use smallvec::SmallVec;

use super::components::{Components, Member};
use super::ids::StorageId;
use super::storage::Storages;
use super::table::Table;
use crate::engine::Instruction;
use crate::op::{Inputs, PerOutput};
use crate::pool::remat::ids::RecipeId;

/// More ops than this between a storage and bytes that no recipe makes, and it becomes a source.
const MAX_DEPTH: u32 = 1024;
/// A storage is dropped only if at most this many ops bring it back.
const MAX_REMATERIALIZED_OPS: usize = 32;

/// Recipes in the order in which they run.
pub type Order = SmallVec<[RecipeId; MAX_REMATERIALIZED_OPS]>;

/// The op that made a storage, and what it read.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub instruction: Arc<Instruction>,
    pub inputs: Inputs<StorageId>,
    /// Storages it makes; `None` once one is forgotten.
    pub outputs: PerOutput<Option<StorageId>>,
    /// Outputs that are active and not stored. While there are any, the recipe claims its inputs.
    claimants: u32,
}

/// Records and recipes, and the rules between them.
#[derive(Debug, Default)]
pub struct Graph {
    pub storages: Storages,
    /// Evicted storages that depend on each other, if the policy asks for these.
    components: Option<Components>,
    recipes: Table<Recipe>,
    /// Storages whose state changed; settled before any method returns.
    unsettled: Vec<StorageId>,
    /// Claims to take off; empty between operations.
    pub ended_claims: Vec<StorageId>,
    pub rematerialization: Rematerialization,
}

/// How far the rematerialization is that is under way.
#[derive(Debug, Default)]
pub struct Rematerialization {
    /// Whether there is one.
    pub under_way: bool,
    /// Ops that it has run.
    pub ops: u32,
    /// While what it has made for later may leave.
    pub drops_wanted: bool,
}

/// Ops of a rematerialization after which it drops nothing any more where all can be offloaded instead: what it drops may be
/// wanted on the way, and that again.
const MAX_DROPPING_OPS: u32 = 128;

impl Rematerialization {
    /// Whether what is not wanted may be dropped.
    pub fn may_drop(&self, offloads_all: bool) -> bool {
        !self.under_way || self.ops < MAX_DROPPING_OPS || !offloads_all
    }
}

impl Graph {
    /// No storages; `counts_components`: the policy asks for evicted storages that depend on each other.
    pub fn new(counts_components: bool) -> Self {
        Graph { components: counts_components.then(Components::default), ..Graph::default() }
    }

    /// Number of recipes.
    pub fn recipe_count(&self) -> usize {
        self.recipes.len()
    }

    /// The recipe.
    pub fn recipe(&self, id: RecipeId) -> &Recipe {
        &self.recipes[id.0]
    }

    fn recipe_mut(&mut self, id: RecipeId) -> &mut Recipe {
        &mut self.recipes[id.0]
    }

    /// Remembers how `outputs` were made, unless they lie too deep: then they stay sources.
    pub fn record(
        &mut self,
        instruction: &Arc<Instruction>,
        inputs: Inputs<StorageId>,
        outputs: &[StorageId],
    ) {
        if outputs.is_empty() {
            return;
        }
        let depth = 1 + inputs.iter().map(|&id| self.storages[id].lineage.depth).max().unwrap_or(0);
        if depth > MAX_DEPTH || !instruction.op.replays_exactly() {
            return;
        }
        let recipe = Recipe {
            instruction: instruction.clone(),
            inputs,
            outputs: outputs.iter().copied().map(Some).collect(),
            claimants: 0,
        };
        let id = RecipeId(self.recipes.insert(recipe));
        for input in self.recipe(id).inputs.clone() {
            self.storages[input].lineage.consumers.push(id);
        }
        for &output in outputs {
            let storage = &mut self.storages[output];
            (storage.lineage.recipe, storage.lineage.depth) = (Some(id), depth);
            if !storage.stored() {
                self.storages.changed(output);
            }
        }
    }

    /// The storage lost its bytes but is still active: its recipe claims what it reads.
    pub fn claim_inputs(&mut self, id: StorageId) {
        debug_assert!(self.storages[id].active() && !self.storages[id].stored());
        let mut unclaimed = vec![id];
        while let Some(id) = unclaimed.pop() {
            let recipe =
                self.storages[id].lineage.recipe.expect("only recomputable storages lose all their bytes");
            let recipe = self.recipe_mut(recipe);
            recipe.claimants += 1;
            if recipe.claimants > 1 {
                continue;
            }
            for input in recipe.inputs.clone() {
                let storage = &mut self.storages[input];
                let was_active = storage.active();
                storage.uses.claims += 1;
                if !was_active {
                    unclaimed.push(input);
                }
            }
        }
    }

    /// The storage, active and recomputable until now, has bytes again or is no longer active. Claims that this ends
    /// are added to `ended_claims`, a storage once per claim; the caller takes them off one by one.
    pub fn unclaim_inputs(&mut self, id: StorageId) {
        let recipe = self.storages[id].lineage.recipe.expect("a recomputable storage has a recipe");
        let recipe = &mut self.recipes[recipe.0];
        recipe.claimants -= 1;
        if recipe.claimants == 0 {
            self.ended_claims.extend(recipe.inputs.iter().copied());
        }
    }

    /// Removes the record if nothing can use it any more, and with it what depended on it.
    pub fn settle(&mut self, id: StorageId) {
        self.unsettled.push(id);
        while let Some(id) = self.unsettled.pop() {
            if !self.storages.contains(id) {
                continue;
            }
            let storage = &self.storages[id];
            if storage.active()
                || storage.stored()
                || (storage.lineage.recipe.is_some() && !storage.lineage.consumers.is_empty())
            {
                continue;
            }
            self.leave_component(id);
            while let Some(&consumer) = self.storages[id].lineage.consumers.last() {
                self.forget(consumer);
            }
            if let Some(recipe) = self.storages[id].lineage.recipe.take() {
                let Recipe { inputs, outputs, .. } = &mut self.recipes[recipe.0];
                inputs.iter().for_each(|&input| self.storages.changed(input));
                for output in outputs.iter_mut().filter(|output| **output == Some(id)) {
                    *output = None;
                }
                if outputs.iter().all(Option::is_none) {
                    self.forget(recipe);
                }
            }
            self.storages.remove(id);
        }
    }

    /// Whether a storage can be given another recipe: no other output of the one that it has is to be made again.
    pub fn may_replace_recipe(&self, id: StorageId) -> bool {
        self.storages[id].lineage.recipe.is_none_or(|recipe| self.recipe(recipe).claimants == 0)
    }

    /// A stored storage is made from `input` alone from now on, which no recipe makes.
    pub fn replace_recipe(&mut self, id: StorageId, instruction: &Arc<Instruction>, input: StorageId) {
        self.make_source(id);
        debug_assert!(self.storages[id].lineage.recipe.is_none(), "the caller has asked whether that may be");
        self.record(instruction, [input].into_iter().collect(), &[id]);
    }

    /// Forgets how a stored storage was made, if no other output of its recipe is to be made again.
    pub fn make_source(&mut self, id: StorageId) {
        let Some(recipe) = self.storages[id].lineage.recipe else { return };
        if !self.storages[id].stored() || self.recipe(recipe).claimants > 0 {
            return;
        }
        (self.storages[id].lineage.recipe, self.storages[id].lineage.depth) = (None, 0);
        self.storages.changed(id);
        let outputs = &mut self.recipe_mut(recipe).outputs;
        outputs.iter_mut().filter(|output| **output == Some(id)).for_each(|output| *output = None);
        if outputs.iter().all(Option::is_none) {
            self.forget(recipe);
        }
        self.settle(id);
    }

    /// Deletes a recipe; what it made becomes sources.
    fn forget(&mut self, id: RecipeId) {
        let recipe = self.recipes.remove(id.0);
        debug_assert_eq!(recipe.claimants, 0, "a recipe that claims its inputs is needed");
        for input in &recipe.inputs {
            let consumers = &mut self.storages[*input].lineage.consumers;
            let at = consumers.iter().rposition(|consumer| *consumer == id);
            consumers.swap_remove(at.expect("a recipe is among its inputs' consumers"));
            if consumers.is_empty() {
                self.unsettled.push(*input);
            }
            self.storages.changed(*input);
        }
        for output in recipe.outputs.into_iter().flatten() {
            self.storages[output].lineage.recipe = None;
            self.storages[output].lineage.depth = 0;
            self.storages.changed(output);
            self.unsettled.push(output);
        }
    }

    /// The recipes that bring `id` back, in the order to run them: those of its ancestors that are not stored, then its
    /// own. `None` if that is impossible, or takes more than [`MAX_REMATERIALIZED_OPS`] where `bounded`.
    pub fn rematerialization_order(&self, id: StorageId, bounded: bool) -> Option<Order> {
        let last = self.storages[id].lineage.recipe?;
        let mut order = Order::new();
        if self.recipe(last).inputs.iter().all(|&input| self.storages[input].stored()) {
            order.push(last);
            return Some(order);
        }
        // Depth first, with an explicit stack: a recipe is placed once all its inputs are.
        let mut stack: SmallVec<[(RecipeId, usize); MAX_REMATERIALIZED_OPS]> = SmallVec::new();
        stack.push((last, 0));
        let mut entered: HashSet<RecipeId> = HashSet::from([last]);
        while let Some((recipe, next)) = stack.pop() {
            let Some(&input) = self.recipe(recipe).inputs.get(next) else {
                order.push(recipe);
                continue;
            };
            stack.push((recipe, next + 1));
            let storage = &self.storages[input];
            if storage.stored() {
                continue;
            }
            let needed = storage.lineage.recipe?;
            if entered.insert(needed) {
                if bounded && entered.len() > MAX_REMATERIALIZED_OPS {
                    return None;
                }
                stack.push((needed, 0));
            }
        }
        Some(order)
    }

    /// The predicted time of the op that made a storage.
    pub fn own_ns(&self, id: StorageId) -> u64 {
        self.storages[id].lineage.recipe.map_or(0, |recipe| self.recipe(recipe).instruction.launch_ns)
    }

    /// The storage has no bytes any more: joins it to the evicted ones around it.
    pub fn join_component(&mut self, id: StorageId) {
        let (own_ns, around) = match self.components {
            Some(_) if self.storages[id].lineage.member.is_none() => {
                (self.own_ns(id), self.evicted_neighbours(id))
            }
            _ => return,
        };
        self.storages[id].lineage.member =
            self.components.as_mut().map(|components| components.join(own_ns, around));
    }

    /// The storage has bytes again, or is forgotten.
    pub fn leave_component(&mut self, id: StorageId) {
        if let (Some(member), Some(components)) =
            (self.storages[id].lineage.member.take(), &mut self.components)
        {
            components.leave(member);
        }
    }

    /// The costs of the sets of evicted storages that `id` touches.
    pub fn neighbouring_components_ns(&self, id: StorageId) -> u64 {
        let Some(components) = &self.components else { return 0 };
        let around = self.evicted_neighbours(id).into_iter();
        let mut roots: Vec<_> = around.map(|member| components.root(member)).collect();
        roots.sort_unstable();
        roots.dedup();
        roots.into_iter().map(|root| components.cost_ns(root)).sum()
    }

    /// What is evicted of the storages that `id` is made from or that are made from it.
    fn evicted_neighbours(&self, id: StorageId) -> Vec<Member> {
        let storage = &self.storages[id];
        let inputs =
            storage.lineage.recipe.into_iter().flat_map(|recipe| self.recipe(recipe).inputs.iter().copied());
        let outputs = storage
            .lineage
            .consumers
            .iter()
            .flat_map(|&consumer| self.recipe(consumer).outputs.iter().flatten());
        inputs.chain(outputs.copied()).filter_map(|id| self.storages[id].lineage.member).collect()
    }
}
