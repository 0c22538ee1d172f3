//! Recomputation: the bytes of a storage that were dropped, made again by its recipe.

use super::ids::{RecipeId, StorageId};
use super::recipe::Recipe;
use crate::error::Error;
use crate::pool::Pool;

impl Pool {
    /// Brings all of these back. One may have to leave for another.
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

    /// Brings a storage that is active but not stored back into device memory, by running recipes; nothing if it is stored.
    ///
    /// An explicit worklist: the recipe on top runs once all it reads is stored. What is stored for a recipe on the list is
    /// *wanted* until that has run: it is not dropped again, at the worst moved, unless nothing else can leave. Each recipe but
    /// those that make such a storage again runs once while it is on the list, and none can come to be above itself. So this
    /// ends.
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

    /// What the recipe of a storage reads is wanted from now on.
    fn begin_rematerialization(&mut self, id: StorageId) -> RecipeId {
        let recipe = self.graph.storages[id].lineage.recipe;
        let recipe = recipe.expect("an active storage is stored or can be made again");
        let inputs = self.graph.recipe(recipe).inputs.clone();
        self.graph.want(&inputs);
        recipe
    }

    /// Runs a recipe whose inputs are stored and wanted; they are wanted no more if it could be run.
    fn replay(&mut self, recipe: RecipeId) -> Result<(), Error> {
        let Recipe { instruction, inputs: ids, .. } = self.graph.recipe(recipe).clone();
        let plan = match self.settings.planted_fault {
            None => instruction,
            Some(fault) => fault.spoil(&*self.submitter.engine, &instruction),
        };
        self.check_working_set(&ids, &plan, false)?;
        let blocks = self.place_operands(&ids, &plan, None)?;
        let submitted = self.submit(&ids, &plan, blocks, None);
        self.graph.unpin(&ids);
        let copies = submitted?;
        self.graph.unwant(&ids);
        // Only now: what made room may have been the end of an output that nothing claims.
        let outputs = self.graph.recipe(recipe).outputs.clone();
        let mut restored = Vec::new();
        for (output, copy) in outputs.into_iter().zip(copies) {
            let wanted = output.filter(|&id| {
                let storage = &self.graph.storages[id];
                storage.active() && !storage.stored()
            });
            match wanted {
                Some(id) => {
                    // Its next use is near: from now on it is like others.
                    self.graph.storages.limit_scopes(id, 0);
                    self.graph.storages.set_device(id, copy, self.observer.computed_ns);
                    self.graph.has_bytes(id);
                    self.follower.note_present(&self.graph, id);
                    self.graph.unclaim(id);
                    self.graph.lost.extend(self.graph.storages[id].lineage.signs.take());
                    self.observer.counters.recomputed_bytes += self.graph.storages[id].size_bytes as u64;
                    if self.observer.journal.is_recording() {
                        restored.push(id);
                    }
                }
                None => self.memory.device.free(copy.block, copy.touched),
            }
        }
        self.observer.note_recompute(&self.graph, &self.submitter, plan.op.name(), &restored);
        self.graph.settle_claims(&mut self.memory);
        self.observer.counters.recomputed_ops += 1;
        self.graph.rematerialization.ops += 1;
        Ok(())
    }
}
