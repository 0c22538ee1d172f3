//! Which of an engine's algorithms runs an op, where results need not be the same bits under every budget: the fastest
//! whose workspace fits what is free besides the op's inputs and outputs, or as the plan states. It is chosen when the
//! op comes, and nothing is evicted for a workspace that a smaller one can do without. The recipe has the algorithm
//! that was chosen, and so has a recomputation. The request log has the op with all its algorithms, so that a trial
//! chooses by its own free memory.

use std::sync::Arc;

use super::Pool;
use super::remat::ids::StorageId;
use crate::engine::Instruction;
use crate::schedule::AlgorithmChoice;

/// The instruction by the algorithm of the least workspace.
pub(super) fn least(asked: &Arc<Instruction>) -> &Arc<Instruction> {
    asked.ways().min_by_key(|way| (way.scratch_bytes, way.launch_ns)).expect("it is one itself")
}

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
        let choice =
            self.follower.active_plans.followed().map(|following| following.algorithms()).unwrap_or_default();
        let taken_bytes = match choice {
            AlgorithmChoice::FastestThatFits => {
                self.memory.device.used_bytes() + self.graph.missing_bytes(ids, asked, in_place)
            }
            _ => self.graph.working_set_bytes(ids, asked, in_place) - asked.aligned_scratch_bytes(),
        };
        let room_bytes = self.memory.device.limit_bytes().saturating_sub(taken_bytes);
        let fits = |way: &&Arc<Instruction>| {
            choice != AlgorithmChoice::SmallestWorkspace && way.aligned_scratch_bytes() <= room_bytes
        };
        let fastest = asked.ways().filter(fits).min_by_key(|way| (way.launch_ns, way.scratch_bytes));
        fastest.unwrap_or_else(|| least(asked)).clone()
    }
}
