//! How much device memory an op needs at once, and whether the budget allows it.

use std::sync::Arc;

use crate::engine::Instruction;
use crate::op::{Inputs, Op};
use crate::pool::Pool;
use crate::pool::algorithm::with_smallest_workspace;
use crate::pool::input::{Input, Overwritten, can_overwrite};
use crate::pool::remat::ids::StorageId;

impl Pool {
    /// The minimum of device memory that an op needs at once.
    pub(super) fn min_working_set_bytes(&self, requested: &Arc<Instruction>, inputs: &[Input]) -> usize {
        let ids: Inputs<StorageId> = inputs.iter().map(|input| input.id).collect();
        let least = with_smallest_workspace(requested);
        self.graph.working_set_bytes(&ids, least, self.overwritten_inputs(inputs, least).len())
    }

    /// The inputs whose memory outputs take. The op must consume them, and their elements must lie like those of the outputs.
    ///
    /// An input that evicted storages claim is only overwritten if the op does not fit the budget otherwise. If nothing
    /// may be offloaded, the same holds for every input of an op that needs more memory: making room may drop a storage
    /// that claims the input, and the input could not be kept.
    pub(in crate::pool) fn overwritten_inputs(
        &self,
        inputs: &[Input],
        instruction: &Instruction,
    ) -> Overwritten {
        let all = self.overwritable(inputs, instruction, |_| true);
        let may_be_claimed =
            !self.settings.methods.offloads_all() && instruction.new_bytes(all.len()).next().is_some();
        let is_claimed =
            |index: usize| may_be_claimed || self.graph.storages[inputs[index].id].uses.claims > 0;
        if !all.iter().any(|&index| is_claimed(index)) {
            return all;
        }
        let unclaimed = self.overwritable(inputs, instruction, |index| !is_claimed(index));
        let ids: Inputs<StorageId> = inputs.iter().map(|input| input.id).collect();
        let needed_bytes = self.graph.working_set_bytes(&ids, instruction, unclaimed.len());
        if needed_bytes <= self.memory.device.limit_bytes() { unclaimed } else { all }
    }

    /// For each output, from the first on, an input of its own whose memory it can take, as long as there is one that is
    /// `wanted`.
    fn overwritable(
        &self,
        inputs: &[Input],
        instruction: &Instruction,
        wanted: impl Fn(usize) -> bool,
    ) -> Overwritten {
        let mut overwritten = Overwritten::new();
        for output in instruction.outputs.iter().take(instruction.op.outputs_in_place()) {
            let is_possible = |&index: &usize| {
                let Input { id, consumed, .. } = inputs[index];
                let storage = &self.graph.storages[id];
                consumed
                    && storage.uses.host_pins == 0
                    && storage.size_bytes == output.size_bytes()
                    && !overwritten.contains(&index)
                    && can_overwrite(inputs, index, instruction)
                    && wanted(index)
            };
            let Some(index) = (0..inputs.len()).find(is_possible) else { break };
            overwritten.push(index);
        }
        overwritten
    }

    /// Whether the budget allows an op that needs `need_bytes` at once. If so, statistics count the op as run.
    pub fn allows(&mut self, need_bytes: usize) -> bool {
        let is_allowed = need_bytes <= self.budget_bytes();
        if is_allowed {
            self.observer.usage.largest_op_bytes = self.observer.usage.largest_op_bytes.max(need_bytes);
        }
        is_allowed
    }

    /// Whether the budget allows an op by itself. If so, statistics count the op as run.
    pub fn allows_op(&mut self, op: &Op, inputs: &[Input]) -> bool {
        let requested = self.submitter.instruction(self.settings.exactness, op, inputs);
        let need_bytes = self.min_working_set_bytes(&requested, inputs);
        self.allows(need_bytes)
    }

    /// Whether an op that needs at least as much was counted as run. Then [`allows`](Pool::allows) would change
    /// nothing.
    pub fn has_allowed(&self, need_bytes: usize) -> bool {
        need_bytes <= self.observer.usage.largest_op_bytes.min(self.budget_bytes())
    }

    /// The size of device memory.
    pub fn budget_bytes(&self) -> usize {
        self.memory.device.limit_bytes()
    }

    /// The size of a storage.
    pub fn size_bytes(&self, id: StorageId) -> usize {
        self.graph.storages[id].size_bytes
    }
}
