//! The choice of an op's algorithm, where results need not have the same bits under every budget.
//!
//! The choice is made when the op comes. It is the fastest algorithm whose workspace fits the memory that is free besides the
//! op's inputs and outputs, unless the plan states another rule. So nothing is evicted for a workspace where an algorithm with a
//! smaller one exists. The recipe has the chosen algorithm, so that a rematerialization gives the same bits. The request log has
//! all algorithms, so that a trial chooses by its own free memory.

use std::sync::Arc;

use super::Pool;
use super::remat::ids::StorageId;
use crate::engine::Instruction;
use crate::schedule::AlgorithmChoice;

/// The instruction with the algorithm of the smallest workspace.
pub(super) fn with_smallest_workspace(instruction: &Arc<Instruction>) -> &Arc<Instruction> {
    instruction
        .algorithms()
        .min_by_key(|one| (one.scratch_bytes, one.launch_ns))
        .expect("an instruction is one of its own alternatives")
}

impl Pool {
    /// The instruction with the algorithm that is chosen now, which is the instruction itself if there is no choice.
    pub(super) fn choose_algorithm(
        &self,
        instruction: &Arc<Instruction>,
        ids: &[StorageId],
        in_place: usize,
    ) -> Arc<Instruction> {
        if instruction.others.is_empty() {
            return instruction.clone();
        }
        let choice =
            self.follower.active_plans.followed().map(|following| following.algorithms()).unwrap_or_default();
        let taken_bytes = match choice {
            AlgorithmChoice::FastestThatFits => {
                self.memory.device.used_bytes() + self.graph.missing_bytes(ids, instruction, in_place)
            }
            _ => {
                self.graph.working_set_bytes(ids, instruction, in_place) - instruction.aligned_scratch_bytes()
            }
        };
        let room_bytes = self.memory.device.limit_bytes().saturating_sub(taken_bytes);
        let fits = |one: &&Arc<Instruction>| {
            choice != AlgorithmChoice::SmallestWorkspace && one.aligned_scratch_bytes() <= room_bytes
        };
        let fastest =
            instruction.algorithms().filter(fits).min_by_key(|one| (one.launch_ns, one.scratch_bytes));
        fastest.unwrap_or_else(|| with_smallest_workspace(instruction)).clone()
    }
}
