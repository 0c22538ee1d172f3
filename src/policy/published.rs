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

/// A decision: a storage leaves device memory at once when an op has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The op after which it leaves.
    pub after: usize,
    /// The gap that it is in then, as the [`Dataflow`] numbers them.
    pub gap: usize,
    /// How it leaves.
    pub how: Eviction,
    /// The op before which it comes back; where none is named, that which needs it waits.
    pub back_before: Option<usize>,
}

impl Absence {
    /// Leaves as soon as a gap begins.
    pub fn of(flow: &Dataflow, gap: usize, how: Eviction) -> Self {
        Absence { after: flow.gaps[gap].from, gap, how, back_before: None }
    }
}

impl Schedule {
    /// A schedule of these decisions; `self` names ops and intervals.
    pub fn with(mut self, absences: &[Absence]) -> Self {
        for absence in absences {
            let interval = IntervalId(absence.gap as u32);
            self.intervals[absence.gap].offload |= absence.how == Eviction::Offload;
            self.releases.push((absence.after as u32, interval, absence.how));
            self.fetches.extend(absence.back_before.map(|op| (op as u32, interval)));
        }
        self.releases.sort_by_key(|&(op, ..)| op);
        self.fetches.sort_by_key(|&(op, _)| op);
        self
    }
}
