//! Rematerialization: the recipes of dropped storages run again.

use super::ids::{RecipeId, StorageId};
use super::recipe::Recipe;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::input::Overwritten;

impl Pool {
    /// Rematerializes all of these storages that are not stored. If memory is short, one of them may be dropped again for
    /// another, so this repeats until all are stored.
    pub(in crate::pool) fn rematerialize_all(&mut self, ids: &[StorageId]) -> Result<(), Error> {
        if !self.graph.rematerialization.under_way {
            self.graph.rematerialization.ops = 0;
        }
        self.graph.want(ids);
        let mut result = Ok(());
        while let Some(&id) = ids.iter().find(|&&id| result.is_ok() && !self.graph.storages[id].stored()) {
            result = self.rematerialize(id);
        }
        self.graph.unwant(ids);
        result
    }

    /// Runs the recipes that bring an active storage back into device memory. Does nothing if it is stored.
    ///
    /// The recipes form an explicit worklist: the one on top runs once all its inputs are stored. The inputs of a recipe on the
    /// list are *wanted* until it has run. A wanted storage can be offloaded, but it is dropped only if nothing else can leave.
    /// No recipe is on the list above itself, and each runs once while it is on the list, except for those that repeat a wanted
    /// result that was dropped. So this ends.
    fn rematerialize(&mut self, id: StorageId) -> Result<(), Error> {
        if self.graph.storages[id].stored() {
            return Ok(());
        }
        let begin_ns = self.observer.computed_ns;
        let mut work = vec![self.begin_rematerialization(id)];
        self.graph.rematerialization.under_way = true;

        let result = loop {
            let Some(&recipe) = work.last() else { break Ok(()) };
            let inputs = &self.graph.recipe(recipe).inputs;
            match inputs.iter().copied().find(|&input| !self.graph.storages[input].stored()) {
                Some(input) => work.push(self.begin_rematerialization(input)),
                None => {
                    let replayed = self.replay(recipe);
                    if replayed.is_err() {
                        break replayed;
                    }
                    work.pop();
                }
            }
        };
        for recipe in work {
            let inputs = self.graph.recipe(recipe).inputs.clone();
            self.graph.unwant(&inputs);
        }
        self.graph.rematerialization.under_way = false;
        self.follower.rematerialized_in(&self.graph, id, self.observer.computed_ns - begin_ns);
        result
    }

    /// Marks the inputs of a storage's recipe as wanted, and returns the recipe.
    fn begin_rematerialization(&mut self, id: StorageId) -> RecipeId {
        let recipe = self.graph.storages[id].lineage.recipe;
        let recipe = recipe.expect("an active storage is stored or can be rematerialized");
        let inputs = self.graph.recipe(recipe).inputs.clone();
        self.graph.want(&inputs);
        recipe
    }

    /// Runs a recipe whose inputs are stored and wanted. If it succeeds, they are no longer wanted by it.
    fn replay(&mut self, recipe: RecipeId) -> Result<(), Error> {
        let Recipe { instruction, inputs: ids, .. } = self.graph.recipe(recipe).clone();
        let instruction = match self.settings.planted_fault {
            None => instruction,
            Some(fault) => fault.spoil(&*self.submitter.engine, &instruction),
        };
        let overwritten = Overwritten::new();
        self.check_working_set(&ids, &instruction, 0)?;
        let blocks = self.place_operands(&ids, &instruction, &overwritten)?;
        let submitted = self.submit(&ids, &instruction, blocks, &overwritten);
        self.graph.unpin(&ids);
        let copies = submitted?;
        self.graph.unwant(&ids);
        // The outputs are read only now, since making room may have ended an output that nothing claims.
        let outputs = self.graph.recipe(recipe).outputs.clone();
        let mut restored = Vec::new();
        for (output, copy) in outputs.into_iter().zip(copies) {
            let wanted = output.filter(|&id| {
                let storage = &self.graph.storages[id];
                storage.active() && !storage.stored()
            });
            match wanted {
                Some(id) => {
                    // Its next use is near, so it is no longer one of those that are dropped before others.
                    self.graph.storages.limit_scopes(id, 0);
                    self.graph.storages.set_device(id, copy, self.observer.computed_ns);
                    self.graph.leave_component(id);
                    self.follower.note_present(&self.graph, id);
                    self.graph.unclaim_inputs(id);
                    self.graph.ended_claims.extend(self.graph.storages[id].lineage.signs.take());
                    self.observer.counters.recomputed_bytes += self.graph.storages[id].size_bytes as u64;
                    if self.observer.journal.is_recording() {
                        restored.push(id);
                    }
                }
                None => self.memory.device.free(copy.block, copy.touched),
            }
        }
        self.observer.note_recompute(&self.graph, &self.submitter, instruction.op.name(), &restored);
        self.graph.settle_claims(&mut self.memory);
        self.observer.counters.recomputed_ops += 1;
        self.graph.rematerialization.ops += 1;
        Ok(())
    }
}
