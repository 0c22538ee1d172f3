//! What an op needs at once, and whether that fits.

use std::sync::Arc;

use crate::engine::Instruction;
use crate::op::{Inputs, Op};
use crate::pool::Pool;
use crate::pool::algorithm::with_smallest_workspace;
use crate::pool::input::{Input, can_overwrite};
use crate::pool::remat::ids::StorageId;

impl Pool {
    /// Device memory that an op needs at once, at the least.
    pub(super) fn least_bytes(&self, asked: &Arc<Instruction>, inputs: &[Input]) -> usize {
        let ids: Inputs<StorageId> = inputs.iter().map(|input| input.id).collect();
        let least = with_smallest_workspace(asked);
        self.graph.working_set_bytes(&ids, least, self.overwritten_input(inputs, least).is_some())
    }

    /// The input whose span the first output takes: one that this op consumes and that lies just as the output will.
    /// If evicted storages need it, only where there is no other way to fit the budget; so too where what makes room for the
    /// rest may come to need it, and it cannot be kept.
    pub(in crate::pool) fn overwritten_input(&self, inputs: &[Input], plan: &Instruction) -> Option<usize> {
        let output = plan.outputs.first()?;
        let possible = |index: &usize| {
            let Input { id, consumed, .. } = inputs[*index];
            let storage = &self.graph.storages[id];
            consumed
                && storage.uses.host_pins == 0
                && storage.size_bytes == output.size_bytes()
                && can_overwrite(inputs, *index, plan)
        };
        let may_be_claimed = !self.settings.ways.offloads_all() && plan.new_bytes(true).next().is_some();
        let claimed =
            |index: &usize| may_be_claimed || self.graph.storages[inputs[*index].id].uses.claims > 0;
        let unclaimed = (0..inputs.len()).find(|index| possible(index) && !claimed(index));
        unclaimed.or_else(|| {
            let ids: Inputs<StorageId> = inputs.iter().map(|input| input.id).collect();
            let bytes = self.graph.working_set_bytes(&ids, plan, false);
            (0..inputs.len()).find(|index| bytes > self.memory.device.limit_bytes() && possible(index))
        })
    }

    /// Whether an op that needs so much device memory at once could be run; it counts as one that was.
    pub fn allows(&mut self, need_bytes: usize) -> bool {
        let is_allowed = need_bytes <= self.budget_bytes();
        if is_allowed {
            self.observer.usage.largest_op_bytes = self.observer.usage.largest_op_bytes.max(need_bytes);
        }
        is_allowed
    }

    /// The same of an op by itself.
    pub fn allows_op(&mut self, op: &Op, inputs: &[Input]) -> bool {
        let asked = self.submitter.instruction(self.settings.exactness, op, inputs);
        asked.is_ok_and(|asked| {
            let need_bytes = self.least_bytes(&asked, inputs);
            self.allows(need_bytes)
        })
    }

    /// Whether an op that needs as much counted as one that was run: then it changes nothing to ask for this one.
    pub fn has_allowed(&self, need_bytes: usize) -> bool {
        need_bytes <= self.observer.usage.largest_op_bytes.min(self.budget_bytes())
    }

    /// Device memory that there is.
    pub fn budget_bytes(&self) -> usize {
        self.memory.device.limit_bytes()
    }

    /// What a storage holds.
    pub fn size_bytes(&self, id: StorageId) -> usize {
        self.graph.storages[id].size_bytes
    }
}
