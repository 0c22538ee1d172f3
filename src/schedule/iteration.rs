//! A schedule: the pool's decisions in an iteration, by the ops of the iteration.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::eviction::{Eviction, WeightedRule};
use super::interval::{IntervalId, IntervalPlan};
use super::layout::Layout;
use super::prefetch::PrefetchDistance;

/// An op of the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduledOp {
    /// The op's identity: [`Instruction::signature`](crate::engine::Instruction).
    pub signature: u64,
    /// The identity of the op in its context, from the [`Tracker`](crate::liveness::Tracker).
    pub context: u64,
    /// The time that the plan assumes.
    pub launch_ns: u64,
    /// The interval that begins at its first operand. Those of the other operands follow, inputs before outputs.
    pub first: IntervalId,
}

/// Which of an engine's algorithms runs an op, if there is a choice, which is under
/// [`Exactness::Fast`](crate::Exactness::Fast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlgorithmChoice {
    /// The fastest whose workspace fits the free memory.
    #[default]
    FastestThatFits,
    /// The fastest, whatever is evicted for its workspace.
    Fastest,
    /// The one with the smallest workspace.
    SmallestWorkspace,
}

/// What a pool does in every iteration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub ops: Vec<ScheduledOp>,
    pub intervals: Vec<IntervalPlan>,
    /// The evictions when an op needs memory, in this order. Sorted by op.
    pub evictions: Vec<(u32, IntervalId, Eviction)>,
    /// The evictions after an op has run. Sorted by op.
    pub releases: Vec<(u32, IntervalId, Eviction)>,
    /// The fetches before an op. Sorted by op.
    pub fetches: Vec<(u32, IntervalId)>,
    /// How long before its use a storage is fetched that `fetches` does not name, if there is memory by then.
    pub prefetch_distance: PrefetchDistance,
    /// The rule for further evictions. `None` means the policy's own rule.
    pub rule: Option<WeightedRule>,
    /// Which algorithms run ops.
    pub algorithms: AlgorithmChoice,
    /// The placements of blocks, if they are planned.
    pub layout: Option<Arc<Layout>>,
    /// The bandwidth of copies that the plan assumes.
    pub link_bytes_per_second: f64,
}

impl Schedule {
    /// The same schedule, noted as planned for this bandwidth of copies.
    pub fn made_with(self, link_bytes_per_second: f64) -> Self {
        Schedule { link_bytes_per_second, ..self }
    }

    /// Equal for schedules of the same ops in the same order, whichever of them is the first.
    pub fn iteration(&self) -> u64 {
        let ops = self.ops.iter().map(|op| op.context.wrapping_mul(2u64.wrapping_mul(op.signature) | 1));
        ops.fold(self.ops.len() as u64, u64::wrapping_add)
    }

    /// Whether all numbers of ops and intervals are those of the schedule. A schedule that the planner made is consistent.
    pub fn is_consistent(&self) -> bool {
        let (ops, intervals) = (self.ops.len(), self.intervals.len());
        let are_ops = |op: u32| (op as usize) < ops;
        let are_known = |op: u32, interval: IntervalId| are_ops(op) && (interval.0 as usize) < intervals;
        let decisions = self.evictions.iter().chain(&self.releases);
        let firsts: Vec<usize> = self.ops.iter().map(|op| op.first.0 as usize).chain([intervals]).collect();
        ops > 0
            && firsts.is_sorted()
            && decisions.clone().all(|&(op, interval, _)| are_known(op, interval))
            && self.evictions.is_sorted_by_key(|&(op, ..)| op)
            && self.releases.is_sorted_by_key(|&(op, ..)| op)
            && self.fetches.is_sorted_by_key(|&(op, _)| op)
            && self.fetches.iter().all(|&(op, interval)| are_known(op, interval))
            && self.layout.as_ref().is_none_or(|layout| {
                layout.blocks.iter().all(|block| are_ops(block.op))
                    && layout.residents.iter().all(|&(interval, _)| are_known(0, interval))
            })
    }

    /// The interval that begins at an operand of an op.
    pub fn interval(&self, op: u32, operand: usize) -> Option<IntervalId> {
        let first = self.ops[op as usize].first.0;
        let end = self.ops.get(op as usize + 1).map_or(self.intervals.len() as u32, |next| next.first.0);
        let id = first + operand as u32;
        (id < end).then_some(IntervalId(id))
    }
}
