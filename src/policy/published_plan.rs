//! The plan of a published policy, and the times of its copies.

use std::cmp::Reverse;
use std::ops::Range;

use crate::liveness::{Dataflow, Value};
use crate::schedule::{AlgorithmChoice, Eviction, IntervalId, Schedule};

/// The limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The device memory.
    pub budget_bytes: usize,
    /// Whether bytes may be kept on the host.
    pub offload: bool,
    /// Whether bytes may be dropped and recomputed.
    pub recompute: bool,
    /// Whether algorithms may be chosen.
    pub algorithms: bool,
}

/// What happens in every iteration, by the numbers of ops and intervals in the [`Dataflow`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedPlan {
    /// The values that leave device memory when an op has run: the op, the interval, and the eviction method.
    pub releases: Vec<(usize, usize, Eviction)>,
    /// The values that come back before an op. Other values come back when an op needs them.
    pub fetches: Vec<(usize, usize)>,
    /// Which algorithms run ops, if there is a choice.
    pub algorithms: AlgorithmChoice,
}

impl PublishedPlan {
    /// Offloads a value as soon as an interval begins, and fetches it before an op, if one is given.
    pub fn swap(&mut self, flow: &Dataflow, interval: usize, back_before: Option<usize>) {
        self.releases.push((flow.intervals[interval].from, interval, Eviction::Offload));
        self.fetches.extend(back_before.map(|op| (op, interval)));
    }

    /// Offloads a value for the time that its reserved copies leave.
    pub fn swap_as_reserved(&mut self, flow: &Dataflow, reserved: &ReservedSwap) {
        let ReservedSwap { swap, out_end_ns, in_begin_ns } = *reserved;
        let op = flow.op_at(in_begin_ns.max(out_end_ns)).clamp(swap.from + 1, swap.until);
        self.swap(flow, swap.interval, Some(op));
    }

    /// Evicts a value as soon as an interval begins.
    pub fn release(&mut self, flow: &Dataflow, interval: usize, method: Eviction) {
        self.releases.push((flow.intervals[interval].from, interval, method));
    }

    /// Drops a value as soon as an interval begins.
    pub fn drop(&mut self, flow: &Dataflow, interval: usize) {
        self.releases.push((flow.intervals[interval].from, interval, Eviction::Drop));
    }
}

/// A value that may be on the host for an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// The interval.
    pub interval: usize,
    /// The value.
    pub value: usize,
    /// The op after which the interval begins.
    pub from: usize,
    /// The op before which it ends.
    pub until: usize,
    /// The device memory that it frees.
    pub size_bytes: usize,
    /// The predicted time of a copy, one way.
    pub copy_ns: u64,
}

/// A swap whose copies have reserved times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedSwap {
    pub swap: Swap,
    pub out_end_ns: u64,
    pub in_begin_ns: u64,
}

impl Swap {
    /// All intervals that end in the iteration in which they begin.
    pub fn all(flow: &Dataflow) -> impl Iterator<Item = Swap> + '_ {
        flow.intervals.iter().enumerate().filter_map(|(place, interval)| {
            let until = interval.until.map(|(until, _)| until).filter(|&until| until < flow.ops.len())?;
            let Value { size_bytes, copy_ns, .. } = flow.values[interval.value];
            let swap = Swap {
                interval: place,
                value: interval.value,
                from: interval.from,
                until,
                size_bytes,
                copy_ns,
            };
            (until > interval.from + 1).then_some(swap)
        })
    }

    /// The time between the end of the copy out and the latest beginning of the copy in, if both lanes are idle.
    pub fn absence_ns(&self, flow: &Dataflow) -> i64 {
        flow.begin_ns(self.until) as i64 - flow.begin_ns(self.from + 1) as i64 - 2 * self.copy_ns as i64
    }

    /// The ops during which the value is not needed.
    pub fn ops(&self) -> Range<usize> {
        self.from + 1..self.until
    }
}

/// Reserves times for copies. Copies out follow each other as early as possible, and copies in as late as possible, so that
/// none delays one that is needed later. The result is in the reverse order of need.
pub fn reserve_copies(flow: &Dataflow, mut swaps: Vec<Swap>) -> Vec<ReservedSwap> {
    swaps.sort_by_key(|swap| (swap.from, swap.interval));
    let mut free_ns = 0;
    let mut reserved: Vec<ReservedSwap> = (swaps.into_iter())
        .map(|swap| {
            free_ns = flow.begin_ns(swap.from + 1).max(free_ns) + swap.copy_ns;
            ReservedSwap { swap, out_end_ns: free_ns, in_begin_ns: 0 }
        })
        .collect();
    reserved.sort_by_key(|reserved| Reverse((reserved.swap.until, reserved.swap.interval)));
    let mut busy_from_ns = u64::MAX;
    for ReservedSwap { swap, in_begin_ns, .. } in &mut reserved {
        busy_from_ns = flow.begin_ns(swap.until).min(busy_from_ns).saturating_sub(swap.copy_ns);
        *in_begin_ns = busy_from_ns;
    }
    reserved
}

/// The device memory that is missing at each op.
pub fn excess_bytes(flow: &Dataflow, limits: Limits) -> Vec<usize> {
    flow.ops.iter().map(|op| op.need_bytes.saturating_sub(limits.budget_bytes)).collect()
}

impl Schedule {
    /// Adds a plan to a schedule that has only ops and intervals.
    pub fn with(mut self, plan: &PublishedPlan) -> Self {
        for &(op, interval, method) in &plan.releases {
            self.intervals[interval].method = Some(method);
            self.releases.push((op as u32, IntervalId(interval as u32), method));
        }
        self.fetches
            .extend(plan.fetches.iter().map(|&(op, interval)| (op as u32, IntervalId(interval as u32))));
        self.releases.sort_by_key(|&(op, ..)| op);
        self.fetches.sort_by_key(|&(op, _)| op);
        self.algorithms = plan.algorithms;
        self
    }
}
