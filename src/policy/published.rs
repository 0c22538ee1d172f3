//! What the published policies that plan a whole iteration have in common: what they are told, and what they answer.

use crate::liveness::Dataflow;

use super::{Eviction, IntervalId, Schedule};

/// What a plan has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Device memory.
    pub budget_bytes: usize,
    /// Whether bytes may be kept on the host.
    pub offload: bool,
    /// Whether bytes may be dropped and recomputed.
    pub recompute: bool,
}

/// What is done in every iteration, by ops and gaps as the [`Dataflow`] numbers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What leaves device memory at once when an op has run, the gap that it is then in, and how.
    pub releases: Vec<(usize, usize, Eviction)>,
    /// What comes back before an op, if it is away; other ops wait for what they need.
    pub fetches: Vec<(usize, usize)>,
}

impl Plan {
    /// A value is away as soon as a gap begins, and comes back before an op, if one is named.
    pub fn swap(&mut self, flow: &Dataflow, gap: usize, back_before: Option<usize>) {
        self.releases.push((flow.gaps[gap].from, gap, Eviction::Offload));
        self.fetches.extend(back_before.map(|op| (op, gap)));
    }

    /// A value is dropped as soon as a gap begins.
    pub fn drop(&mut self, flow: &Dataflow, gap: usize) {
        self.releases.push((flow.gaps[gap].from, gap, Eviction::Drop));
    }
}

impl Schedule {
    /// A schedule of a plan; `self` names ops and intervals.
    pub fn with(mut self, plan: &Plan) -> Self {
        for &(op, gap, how) in &plan.releases {
            self.intervals[gap].offload |= how == Eviction::Offload;
            self.releases.push((op as u32, IntervalId(gap as u32), how));
        }
        self.fetches.extend(plan.fetches.iter().map(|&(op, gap)| (op as u32, IntervalId(gap as u32))));
        self.releases.sort_by_key(|&(op, ..)| op);
        self.fetches.sort_by_key(|&(op, _)| op);
        self
    }
}
