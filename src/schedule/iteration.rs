//! A plan of a whole iteration: what the pool is to do, and when, by the ops of the iteration.

use std::sync::Arc;

use super::eviction::{Eviction, Weighed};
use super::interval::{Interval, IntervalId};
use super::layout::Layout;
use super::prefetch::Reach;

/// An op of the iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduledOp {
    /// What it is like: [`Instruction::signature`](crate::engine::Instruction).
    pub signature: u64,
    /// What it is like where it is, as the [`Tracker`](crate::liveness::Tracker) tells.
    pub context: u64,
    /// The time that it was planned with.
    pub launch_ns: u64,
    /// The interval that begins at its first operand, inputs before outputs; the others follow.
    pub first: IntervalId,
}

/// Which of an engine's algorithms an op is run by, where one may be chosen: under [`Exactness::Fast`](crate::Exactness::Fast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlgorithmChoice {
    /// The fastest whose workspace fits what is free now.
    #[default]
    FastestThatFits,
    /// The fastest, whatever has to leave for its workspace.
    Fastest,
    /// The one of the least workspace.
    SmallestWorkspace,
}

/// What a pool does in every iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    pub ops: Vec<ScheduledOp>,
    pub intervals: Vec<Interval>,
    /// What leaves device memory when an op needs room, in this order, and whether its bytes are dropped. By op.
    pub evictions: Vec<(u32, IntervalId, Eviction)>,
    /// What leaves as soon as an op has run. By op.
    pub releases: Vec<(u32, IntervalId, Eviction)>,
    /// What is fetched before an op. By op.
    pub fetches: Vec<(u32, IntervalId)>,
    /// How long before its use a storage is fetched that `fetches` does not name, if there is room by then.
    pub reach: Reach,
    /// How other storages are evicted, if that does not suffice; where none is named, by the policy's own rule.
    pub rule: Option<Weighed>,
    /// By which algorithms.
    pub algorithms: AlgorithmChoice,
    /// Where blocks are, if that was planned.
    pub layout: Option<Arc<Layout>>,
    /// The bandwidth of copies that it was planned with.
    pub link_bytes_per_second: f64,
}

impl Schedule {
    /// The schedule was made with this bandwidth of copies in mind.
    pub fn made_with(self, link_bytes_per_second: f64) -> Self {
        Schedule { link_bytes_per_second, ..self }
    }

    /// The interval that begins at an operand of an op.
    pub fn interval(&self, op: u32, operand: usize) -> Option<IntervalId> {
        let first = self.ops[op as usize].first.0;
        let end = self.ops.get(op as usize + 1).map_or(self.intervals.len() as u32, |next| next.first.0);
        let id = first + operand as u32;
        (id < end).then_some(IntervalId(id))
    }
}
