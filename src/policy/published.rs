//! What the published policies that plan a whole iteration have in common: what they are told, and what they answer.

use std::cmp::Reverse;
use std::fmt::Debug;
use std::ops::Range;

use crate::liveness::{Dataflow, Value};

use super::tensor_cache::TensorCache;
use super::{Candidate, Reactive, Ways};
use crate::schedule::{AlgorithmChoice, Eviction, IntervalId, Schedule};

/// A policy that plans whole iterations.
pub trait Plans: Debug + Send + Sync {
    /// See [`Reactive::plan`].
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan>;

    /// See [`Reactive::encodes`].
    fn encodes(&self) -> bool {
        false
    }

    /// Whether it drops what can be recomputed where nothing can be moved.
    fn recomputes(&self) -> bool {
        false
    }
}

/// A policy that plans, and the tensor cache for what no plan says.
#[derive(Debug)]
pub struct Planned<P>(pub P);

impl<P: Plans> Reactive for Planned<P> {
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        TensorCache.pick(need_bytes, candidates)
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        let drop = ways.remake_ns.filter(|_| self.0.recomputes()).map(|_| Eviction::Drop);
        TensorCache.how(ways).or(drop)
    }

    fn plans(&self) -> bool {
        true
    }

    fn encodes(&self) -> bool {
        self.0.encodes()
    }

    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan> {
        self.0.plan(flow, limits)
    }
}

/// What a plan has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Device memory.
    pub budget_bytes: usize,
    /// Whether bytes may be kept on the host.
    pub offload: bool,
    /// Whether bytes may be dropped and recomputed.
    pub recompute: bool,
    /// Whether algorithms may be chosen.
    pub algorithms: bool,
}

/// What is done in every iteration, by ops and gaps as the [`Dataflow`] numbers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What leaves device memory at once when an op has run, the gap that it is then in, and how.
    pub releases: Vec<(usize, usize, Eviction)>,
    /// What comes back before an op, if it is away; other ops wait for what they need.
    pub fetches: Vec<(usize, usize)>,
    /// By which algorithms ops run, where one may be chosen.
    pub algorithms: AlgorithmChoice,
}

impl Plan {
    /// A value is away as soon as a gap begins, and comes back before an op, if one is named.
    pub fn swap(&mut self, flow: &Dataflow, gap: usize, back_before: Option<usize>) {
        self.releases.push((flow.gaps[gap].from, gap, Eviction::Offload));
        self.fetches.extend(back_before.map(|op| (op, gap)));
    }

    /// A value is away as long as its copies have it booked.
    pub fn swap_as_booked(&mut self, flow: &Dataflow, booked: &Booked) {
        let Booked { swap, out_end_ns, in_begin_ns } = *booked;
        let op = flow.op_at(in_begin_ns.max(out_end_ns)).clamp(swap.from + 1, swap.until);
        self.swap(flow, swap.gap, Some(op));
    }

    /// A value leaves as soon as a gap begins.
    pub fn release(&mut self, flow: &Dataflow, gap: usize, how: Eviction) {
        self.releases.push((flow.gaps[gap].from, gap, how));
    }

    /// A value is dropped as soon as a gap begins.
    pub fn drop(&mut self, flow: &Dataflow, gap: usize) {
        self.releases.push((flow.gaps[gap].from, gap, Eviction::Drop));
    }
}

/// A value that may be on the host while no op touches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// The gap.
    pub gap: usize,
    /// Whose.
    pub value: usize,
    /// The ops that it lies between.
    pub from: usize,
    /// See `from`.
    pub until: usize,
    /// Device memory that it frees.
    pub size_bytes: usize,
    /// Predicted time of a copy, one way.
    pub copy_ns: u64,
}

/// A swap whose copies have their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booked {
    pub swap: Swap,
    pub out_end_ns: u64,
    pub in_begin_ns: u64,
}

impl Swap {
    /// Every gap that ends in the iteration that it begins in.
    pub fn all(flow: &Dataflow) -> impl Iterator<Item = Swap> + '_ {
        flow.gaps.iter().enumerate().filter_map(|(place, gap)| {
            let until = gap.until.map(|(until, _)| until).filter(|&until| until < flow.ops.len())?;
            let Value { size_bytes, copy_ns, .. } = flow.values[gap.value];
            let swap = Swap { gap: place, value: gap.value, from: gap.from, until, size_bytes, copy_ns };
            (until > gap.from + 1).then_some(swap)
        })
    }

    /// The time between the end of a copy out and the latest beginning of the copy in, if both lanes are idle.
    pub fn absence_ns(&self, flow: &Dataflow) -> i64 {
        flow.begin_ns(self.until) as i64 - flow.begin_ns(self.from + 1) as i64 - 2 * self.copy_ns as i64
    }

    /// Ops during which the value is not needed.
    pub fn ops(&self) -> Range<usize> {
        self.from + 1..self.until
    }
}

/// Gives copies their times: out one after another, as early as they can be, and in as late as they can be, so that none
/// delays one that is needed later. Those that are needed first come last.
pub fn book(flow: &Dataflow, mut swaps: Vec<Swap>) -> Vec<Booked> {
    swaps.sort_by_key(|swap| (swap.from, swap.gap));
    let mut free_ns = 0;
    let mut booked: Vec<Booked> = (swaps.into_iter())
        .map(|swap| {
            free_ns = flow.begin_ns(swap.from + 1).max(free_ns) + swap.copy_ns;
            Booked { swap, out_end_ns: free_ns, in_begin_ns: 0 }
        })
        .collect();
    booked.sort_by_key(|booked| Reverse((booked.swap.until, booked.swap.gap)));
    let mut busy_from_ns = u64::MAX;
    for Booked { swap, in_begin_ns, .. } in &mut booked {
        busy_from_ns = flow.begin_ns(swap.until).min(busy_from_ns).saturating_sub(swap.copy_ns);
        *in_begin_ns = busy_from_ns;
    }
    booked
}

/// Device memory that is missing at each op.
pub fn excess_bytes(flow: &Dataflow, limits: Limits) -> Vec<usize> {
    flow.ops.iter().map(|op| op.need_bytes.saturating_sub(limits.budget_bytes)).collect()
}

impl Schedule {
    /// A schedule of a plan; `self` names ops and intervals.
    pub fn with(mut self, plan: &Plan) -> Self {
        for &(op, gap, how) in &plan.releases {
            self.intervals[gap].how = Some(how);
            self.releases.push((op as u32, IntervalId(gap as u32), how));
        }
        self.fetches.extend(plan.fetches.iter().map(|&(op, gap)| (op as u32, IntervalId(gap as u32))));
        self.releases.sort_by_key(|&(op, ..)| op);
        self.fetches.sort_by_key(|&(op, _)| op);
        self.algorithms = plan.algorithms;
        self
    }
}
