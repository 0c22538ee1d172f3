//! Recipes, which rematerialize storages, and the records that they keep.
//!
//! A recipe keeps the records of its inputs, but not their bytes. When a storage is dropped, its recipe *claims* its inputs. A
//! claimed storage is active: it stays stored, or its own recipe claims its inputs in turn. When a source loses its last handle
//! and claim, its bytes go, and all recipes that read it are forgotten, directly or through other storages. So a record exists
//! only while something can still use it.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::components::{Components, Member};
use super::ids::StorageId;
use super::storage::{Storage, Storages};
use super::table::Table;
use crate::engine::Instruction;
use crate::op::{Inputs, PerOutput};
use crate::pool::remat::ids::RecipeId;

/// The longest chain of recipes. A storage that would lie deeper gets no recipe and is a source.
const MAX_DEPTH: u32 = 1024;
/// A storage is dropped only if at most this many ops rematerialize it.
const MAX_REMATERIALIZED_OPS: usize = 32;

/// Recipes in the order in which they are to run.
pub type Order = SmallVec<[RecipeId; MAX_REMATERIALIZED_OPS]>;

/// The instruction that made storages, and what it read.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub instruction: Arc<Instruction>,
    pub inputs: Inputs<StorageId>,
    /// The storages that it makes; `None` for one whose record is gone or that has become a source.
    pub outputs: PerOutput<Option<StorageId>>,
    /// The number of outputs that are active and not stored. While there are any, the recipe claims its inputs.
    claimants: u32,
}

/// All storages and recipes, and the rules that connect them.
#[derive(Debug, Default)]
pub struct Graph {
    pub storages: Storages,
    /// The sets of evicted storages that depend on each other, if the policy asks for them.
    components: Option<Components>,
    recipes: Table<Recipe>,
    /// Storages whose records may have to go. It is empty between calls.
    unsettled: Vec<StorageId>,
    /// Storages that have to lose a claim, once per claim. It is empty between operations.
    pub ended_claims: Vec<StorageId>,
    pub rematerialization: Rematerialization,
}

/// The progress of the rematerialization under way.
#[derive(Debug, Default)]
pub struct Rematerialization {
    /// Whether one is under way.
    pub under_way: bool,
    /// The number of ops that it has run.
    pub ops: u32,
    /// Whether storages that it wants may be dropped now, since nothing else can leave.
    pub drops_wanted: bool,
}

/// After this many ops, a rematerialization drops nothing more if everything can be offloaded instead. What it drops may be needed
/// again on its way, and so on.
const MAX_DROPPING_OPS: u32 = 128;

impl Rematerialization {
    /// Whether storages that are not wanted may be dropped; `offloads_all` tells whether everything can be offloaded instead.
    pub fn may_drop(&self, offloads_all: bool) -> bool {
        !self.under_way || self.ops < MAX_DROPPING_OPS || !offloads_all
    }
}

impl Graph {
    /// Creates an empty graph; `counts_components` tells whether the policy asks for components.
    pub fn new(counts_components: bool) -> Self {
        Graph { components: counts_components.then(Components::default), ..Graph::default() }
    }

    /// The number of recipes.
    pub fn recipe_count(&self) -> usize {
        self.recipes.len()
    }

    /// The recipe of this id.
    pub fn recipe(&self, id: RecipeId) -> &Recipe {
        &self.recipes[id.0]
    }

    fn recipe_mut(&mut self, id: RecipeId) -> &mut Recipe {
        &mut self.recipes[id.0]
    }

    /// Records how `outputs` were made. They stay sources if they lie too deep, or if the op would not give the same bits again.
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

    /// Lets the recipe of a storage that is active but has no bytes any more claim its inputs.
    pub fn claim_inputs(&mut self, id: StorageId) {
        debug_assert!(self.storages[id].active() && !self.storages[id].stored());
        let mut unclaimed = vec![id];
        while let Some(id) = unclaimed.pop() {
            let recipe =
                self.storages[id].lineage.recipe.expect("only storages with recipes lose all their bytes");
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

    /// Ends the claims of a storage that was active and not stored, and has bytes again or is no longer active. The claims that
    /// end by this are added to `ended_claims`, and [`settle_claims`](Graph::settle_claims) takes them off.
    pub fn unclaim_inputs(&mut self, id: StorageId) {
        let recipe = self.storages[id].lineage.recipe.expect("a storage without bytes has a recipe");
        let recipe = &mut self.recipes[recipe.0];
        recipe.claimants -= 1;
        if recipe.claimants == 0 {
            self.ended_claims.extend(recipe.inputs.iter().copied());
        }
    }

    /// Removes a storage's record if nothing can use it any more, and the records that only it kept.
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

    /// Whether a storage can be given another recipe. Its own must not claim its inputs for another output.
    pub fn may_replace_recipe(&self, id: StorageId) -> bool {
        self.storages[id].lineage.recipe.is_none_or(|recipe| self.recipe(recipe).claimants == 0)
    }

    /// Gives a stored storage a recipe that makes it from `input` alone, which is a source.
    pub fn replace_recipe(&mut self, id: StorageId, instruction: &Arc<Instruction>, input: StorageId) {
        self.make_source(id);
        debug_assert!(
            self.storages[id].lineage.recipe.is_none(),
            "the caller checks that it can be replaced"
        );
        self.record(instruction, [input].into_iter().collect(), &[id]);
    }

    /// Makes a stored storage a source, unless its recipe claims its inputs for another output.
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

    /// Removes a recipe. The storages that it made become sources.
    fn forget(&mut self, id: RecipeId) {
        let recipe = self.recipes.remove(id.0);
        debug_assert_eq!(recipe.claimants, 0, "a recipe that claims its inputs is not forgotten");
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

    /// Whether storages count as many claims as there are: of recipes that have to run again, and of storages that keep their signs.
    /// The error names one that does not.
    pub fn check_claims(&self) -> Result<(), String> {
        let mut claims = HashMap::<StorageId, u32>::new();
        for (_, recipe) in self.recipes.iter() {
            let is_claimant = |id: &StorageId| self.storages[*id].active() && !self.storages[*id].stored();
            let claimants = recipe.outputs.iter().flatten().filter(|id| is_claimant(id)).count();
            if claimants != recipe.claimants as usize {
                let op = recipe.instruction.op.name();
                return Err(format!(
                    "{claimants} outputs of {op} are missing, it counts {}",
                    recipe.claimants
                ));
            }
            let claimed = recipe.inputs.iter().filter(|_| claimants > 0);
            claimed.for_each(|&input| *claims.entry(input).or_default() += 1);
        }
        let signs = self.storages.iter().filter_map(|(_, storage)| storage.lineage.signs);
        signs.for_each(|form| *claims.entry(form).or_default() += 1);
        self.storages.iter().try_for_each(|(id, Storage { number, uses, .. })| {
            let there_are = claims.get(&id).copied().unwrap_or_default();
            let error =
                || format!("storage {number} counts {} claims, and there are {there_are}", uses.claims);
            (uses.claims == there_are).then_some(()).ok_or_else(error)
        })
    }

    /// The recipes that rematerialize `id`, in the order in which they are to run: those of its ancestors that are not stored,
    /// then its own. Returns `None` if a recipe is missing, or if `bounded` and there are more than
    /// [`MAX_REMATERIALIZED_OPS`].
    pub fn rematerialization_order(&self, id: StorageId, bounded: bool) -> Option<Order> {
        let last = self.storages[id].lineage.recipe?;
        let mut order = Order::new();
        if self.recipe(last).inputs.iter().all(|&input| self.storages[input].stored()) {
            order.push(last);
            return Some(order);
        }
        // The search goes depth first, with an explicit stack. A recipe is added after the recipes of its inputs.
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

    /// Adds a storage that has no bytes any more to the components of its evicted neighbours.
    pub fn join_component(&mut self, id: StorageId) {
        let (own_ns, neighbours) = match self.components {
            Some(_) if self.storages[id].lineage.member.is_none() => {
                (self.own_ns(id), self.evicted_neighbours(id))
            }
            _ => return,
        };
        self.storages[id].lineage.member =
            self.components.as_mut().map(|components| components.join(own_ns, neighbours));
    }

    /// Removes a storage that has bytes again, or whose record goes, from its component.
    pub fn leave_component(&mut self, id: StorageId) {
        if let (Some(member), Some(components)) =
            (self.storages[id].lineage.member.take(), &mut self.components)
        {
            components.leave(member);
        }
    }

    /// The sum of the costs of the components that `id` has neighbours in.
    pub fn neighbouring_components_ns(&self, id: StorageId) -> u64 {
        let Some(components) = &self.components else { return 0 };
        let neighbours = self.evicted_neighbours(id).into_iter();
        let mut roots: Vec<_> = neighbours.map(|member| components.root(member)).collect();
        roots.sort_unstable();
        roots.dedup();
        roots.into_iter().map(|root| components.cost_ns(root)).sum()
    }

    /// The evicted storages among those that `id` is made from or that are made from it.
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
