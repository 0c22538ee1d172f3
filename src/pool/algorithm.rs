//! Which of an engine's algorithms runs an op, where results need not be the same bits under every budget: the fastest
//! whose workspace fits what is free besides the op's inputs and outputs, or as the plan states. It is chosen when the
//! op comes, and nothing is evicted for a workspace that a smaller one can do without. The recipe has the algorithm
//! that was chosen, and so has a recomputation. The request log has the op with all its algorithms, so that a trial
//! chooses by its own free memory.

use std::sync::Arc;

use super::Pool;
use super::remat::ids::StorageId;
use crate::engine::{Instruction, aligned};
use crate::schedule::AlgorithmChoice;

impl Pool {
    /// The instruction by the algorithm that is chosen now; itself, where none may be chosen.
    pub(super) fn chosen(
        &self,
        asked: &Arc<Instruction>,
        ids: &[StorageId],
        in_place: bool,
    ) -> Arc<Instruction> {
        if asked.others.is_empty() {
            return asked.clone();
        }
        let choice = self.follower.plans.active().map(|following| following.algorithms()).unwrap_or_default();
        let taken_bytes = match choice {
            AlgorithmChoice::FastestThatFits => {
                self.memory.device.used_bytes() + self.missing_bytes(ids, asked, in_place)
            }
            _ => self.working_set_bytes(ids, asked, in_place) - aligned_scratch(asked),
        };
        let room_bytes = self.memory.device.limit_bytes().saturating_sub(taken_bytes);
        let fits = |way: &&Arc<Instruction>| {
            choice != AlgorithmChoice::SmallestWorkspace && aligned_scratch(way) <= room_bytes
        };
        let fastest = asked.ways().filter(fits).min_by_key(|way| (way.launch_ns, way.scratch_bytes));
        fastest.unwrap_or_else(|| least(asked)).clone()
    }

    /// Device memory that what an op reads and makes takes in addition to what is there, without its workspace.
    fn missing_bytes(&self, ids: &[StorageId], plan: &Instruction, in_place: bool) -> usize {
        let there = |&id: &StorageId| self.graph.storages[id].device.is_some();
        let mut resident: Vec<StorageId> = ids.iter().copied().filter(there).collect();
        resident.sort_unstable();
        resident.dedup();
        let resident = resident.into_iter().map(|id| aligned(self.graph.storages[id].size_bytes));
        self.working_set_bytes(ids, plan, in_place) - aligned_scratch(plan) - resident.sum::<usize>()
    }
}

fn aligned_scratch(plan: &Instruction) -> usize {
    if plan.scratch_bytes == 0 { 0 } else { aligned(plan.scratch_bytes) }
}

/// The instruction by the algorithm of the least workspace.
pub(super) fn least(asked: &Arc<Instruction>) -> &Arc<Instruction> {
    asked.ways().min_by_key(|way| (way.scratch_bytes, way.launch_ns)).expect("it is one itself")
}
