//! Peng et al., *Capuchin: Tensor-based GPU Memory Management for Deep Learning*, ASPLOS 2020, section 4. Among the values that
//! are accessed again after the peak, Capuchin swaps the value with the longest free time (FT), as long as this time hides both
//! copies. If memory is still short, it swaps or recomputes, whichever delays less, and recomputes in order of memory saved per
//! second (MSPS). A swapped value comes back at an in-trigger: an access that precedes its use by the time of a copy, or by
//! more if other copies need the lane. Recomputation is on demand.
//!
//! Departures from the paper:
//!
//! - The time of copies is predicted, with the contention of the lanes.
//! - In the paper, an in-trigger moves earlier from iteration to iteration if the access that it serves had to wait. Here all
//!   in-triggers move together, by fractions of the time of their copies, and the fastest plan on the simulation is followed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::liveness::Dataflow;

use super::published::PublishedPolicy;
use super::published_plan::{Limits, PublishedPlan, Swap, excess_bytes, reserve_copies};

/// How much earlier than predicted in-triggers come, as fractions of the time of their copies. All are tried.
const EARLIER: [f64; 5] = [0.0, 0.25, 0.5, 1.0, 2.0];
/// A recomputation of more ops than this is not considered.
const MAX_RECOMPUTED_OPS: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Capuchin;

impl PublishedPolicy for Capuchin {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        let selection = choose(flow, limits);
        let mut plans: Vec<PublishedPlan> = Vec::new();
        for part in EARLIER {
            let plan = selection.plan(part);
            if !plans.contains(&plan) {
                plans.push(plan);
            }
        }
        plans
    }

    fn recomputes(&self) -> bool {
        true
    }
}

fn choose(flow: &Dataflow, limits: Limits) -> Selection<'_> {
    let mut left = excess_bytes(flow, limits);
    let mut selection = Selection { flow, swaps: Vec::new(), dropped: vec![None; flow.values.len()] };
    let is_feature_map = |access: &Swap| !flow.values[access.value].persists;
    let mut accesses: Vec<Swap> =
        Swap::all(flow).filter(|access| is_feature_map(access) && helps(&left, access)).collect();
    accesses.sort_by_key(|access| (Reverse(access.absence_ns(flow)), access.interval));
    accesses.retain(|access| {
        let hidden = limits.offload && helps(&left, access) && selection.delay_ns(Some(*access)) == 0;
        if hidden {
            relieve(&mut left, access);
            selection.swaps.push(*access);
        }
        !hidden
    });
    // The memory saved per second only falls as more values are dropped, so a value's figure is updated when it is the largest.
    let saved =
        |selection: &Selection, at: usize| Some((selection.saved_per_second(&accesses[at])?, Reverse(at)));
    let places = 0..if limits.recompute { accesses.len() } else { 0 };
    let mut by_saving: BinaryHeap<_> = places.filter_map(|at| saved(&selection, at)).collect();
    let mut taken = vec![false; accesses.len()];
    let mut next_swap = 0;
    while left.iter().any(|&bytes| bytes > 0) {
        let useful = |at: usize| !taken[at] && helps(&left, &accesses[at]);
        next_swap = (next_swap..accesses.len()).find(|&at| useful(at)).unwrap_or(accesses.len());
        let swap = (limits.offload && next_swap < accesses.len()).then_some(next_swap);
        let mut drop = None;
        while let Some((stale, Reverse(at))) = by_saving.pop() {
            match saved(&selection, at).filter(|_| useful(at)) {
                Some(fresh) if fresh.0 == stale => drop = Some(fresh),
                Some(fresh) => by_saving.push(fresh),
                None => {}
            }
            if drop.is_some() {
                break;
            }
        }
        let before_ns = selection.delay_ns(None);
        let swap_ns = swap.map(|at| selection.delay_ns(Some(accesses[at])).saturating_sub(before_ns));
        let rematerialize_ns = drop.and_then(|(_, Reverse(at))| selection.rematerialize_ns(&accesses[at]));
        let swaps = swap_ns.is_some_and(|swap_ns| {
            rematerialize_ns.is_none_or(|rematerialize_ns| swap_ns <= rematerialize_ns)
        });
        let Some(at) = (if swaps { swap } else { drop.map(|(_, Reverse(at))| at) }) else { break };
        relieve(&mut left, &accesses[at]);
        taken[at] = true;
        if swaps {
            selection.swaps.push(accesses[at]);
            by_saving.extend(drop);
        } else {
            selection.dropped[accesses[at].value] = Some(accesses[at]);
        }
    }
    selection
}

fn helps(left: &[usize], access: &Swap) -> bool {
    left[access.ops()].iter().any(|&bytes| bytes > 0)
}

/// Subtracts a value's bytes from the excess.
fn relieve(left: &mut [usize], access: &Swap) {
    let excess = left[access.ops()].iter_mut();
    excess.for_each(|excess| *excess = excess.saturating_sub(access.size_bytes));
}

/// The values chosen so far.
struct Selection<'a> {
    flow: &'a Dataflow,
    swaps: Vec<Swap>,
    /// By value.
    dropped: Vec<Option<Swap>>,
}

impl Selection<'_> {
    /// The total delay of swapped values, with one more if it is given.
    fn delay_ns(&self, more: Option<Swap>) -> u64 {
        let reserved = reserve_copies(self.flow, self.swaps.iter().copied().chain(more).collect());
        reserved.iter().map(|reserved| reserved.out_end_ns.saturating_sub(reserved.in_begin_ns)).sum()
    }

    /// The plan for the chosen values, with in-triggers that come earlier than predicted.
    fn plan(&self, earlier: f64) -> PublishedPlan {
        let mut plan = PublishedPlan::default();
        for mut reserved in reserve_copies(self.flow, self.swaps.clone()) {
            let earlier_ns = (reserved.swap.copy_ns as f64 * earlier) as u64;
            reserved.in_begin_ns = reserved.in_begin_ns.saturating_sub(earlier_ns);
            plan.swap_as_reserved(self.flow, &reserved);
        }
        self.dropped.iter().flatten().for_each(|access| plan.drop(self.flow, access.interval));
        plan
    }

    /// Bytes saved per second of recomputation.
    fn saved_per_second(&self, access: &Swap) -> Option<u64> {
        let bytes = self.flow.values[access.value].size_bytes as u64;
        Some(bytes.saturating_mul(1_000_000_000) / self.rematerialize_ns(access)?.max(1))
    }

    /// The predicted time to recompute a value when it is accessed, including its inputs that are absent by then. `None` if it
    /// cannot be recomputed.
    fn rematerialize_ns(&self, access: &Swap) -> Option<u64> {
        let is_there = |value: usize| {
            let record = &self.flow.values[value];
            let gone = record.freed_after.is_some_and(|op| op < access.until);
            let away = self.dropped[value].is_some_and(|dropped| dropped.ops().contains(&access.until));
            !gone && !away
        };
        let (mut total_ns, mut ops) = (0, Vec::new());
        let mut needed = vec![access.value];
        while let Some(value) = needed.pop() {
            let op = self.flow.values[value].made_by?;
            if ops.contains(&op) {
                continue;
            }
            if !self.flow.ops[op].exact || ops.len() == MAX_RECOMPUTED_OPS {
                return None;
            }
            ops.push(op);
            total_ns += self.flow.ops[op].launch_ns;
            let inputs = self.flow.ops[op].inputs.iter().copied();
            needed.extend(inputs.filter(|&input| !is_there(input)));
        }
        Some(total_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{chain, input_of, kept_input};
    use crate::schedule::Eviction;

    /// Four layers. The output of the second is large.
    const LAYERS: [(&str, usize); 4] = [("conv", 500), ("conv", 4000), ("relu", 500), ("matmul", 500)];

    fn planned(flow: &Dataflow, budget_bytes: usize, offload: bool, recompute: bool) -> PublishedPlan {
        choose(flow, Limits { budget_bytes, offload, recompute, algorithms: false }).plan(0.0)
    }

    #[test]
    fn what_fits_stays() {
        let flow = chain(500, &LAYERS);
        assert_eq!(planned(&flow, flow.peak_bytes(), true, true), PublishedPlan::default());
    }

    #[test]
    fn what_is_hidden_is_swapped_the_longest_free_time_first() {
        let flow = chain(500, &LAYERS);
        let plan = planned(&flow, flow.peak_bytes() - 400, true, true);
        let kept = kept_input(&flow, 4, 0);
        assert_eq!(plan.releases, [(flow.intervals[kept].from, kept, Eviction::Offload)]);
        // The value is back before it is needed.
        let (until, _) = flow.intervals[kept].until.unwrap();
        assert!(plan.fetches.iter().all(|&(op, interval)| interval == kept && op < until));
    }

    #[test]
    fn in_triggers_that_come_earlier_are_tried_too() {
        let flow = chain(500, &LAYERS);
        let budget_bytes = flow.peak_bytes() - 400;
        let plans =
            Capuchin.plan(&flow, Limits { budget_bytes, offload: true, recompute: true, algorithms: false });
        assert_eq!(plans[0], planned(&flow, budget_bytes, true, true));
        let begins: Vec<usize> = plans.iter().map(|plan| plan.fetches[0].0).collect();
        assert!(begins.len() > 1 && begins.is_sorted_by(|one, next| one > next), "{begins:?}");
        assert!(plans.iter().all(|plan| plan.releases == plans[0].releases));
    }

    #[test]
    fn what_is_not_hidden_is_recomputed_where_that_takes_less() {
        let flow = chain(500, &LAYERS);
        // Both copies of the large value take eight microseconds, and its op takes one.
        let large = input_of(4, 2);
        let method = |plan: &PublishedPlan| {
            plan.releases
                .iter()
                .find(|release| flow.intervals[release.1].value == large)
                .map(|release| release.2)
        };
        assert_eq!(method(&planned(&flow, 3000, true, true)), Some(Eviction::Drop));
        assert_eq!(method(&planned(&flow, 3000, true, false)), Some(Eviction::Offload));
        assert_eq!(method(&planned(&flow, 3000, false, true)), Some(Eviction::Drop));
    }

    #[test]
    fn a_recomputation_costs_all_that_is_not_there() {
        let flow = chain(500, &LAYERS);
        let mut selection =
            Selection { flow: &flow, swaps: Vec::new(), dropped: vec![None; flow.values.len()] };
        let access = |place| {
            let interval = kept_input(&flow, 4, place);
            Swap::all(&flow).find(|swap| swap.interval == interval).unwrap()
        };
        assert_eq!(selection.rematerialize_ns(&access(3)), Some(1000));
        selection.dropped[input_of(4, 2)] = Some(access(2));
        assert_eq!(selection.rematerialize_ns(&access(3)), Some(2000));
        // The batch cannot be recomputed.
        assert_eq!(selection.rematerialize_ns(&access(0)), None);
    }
}
