//! Peng et al., *Capuchin: Tensor-based GPU Memory Management for Deep Learning*, ASPLOS 2020, section 4: of what is
//! accessed again after the peak, the value with the longest free time (FT) is swapped, as long as the time hides both
//! copies; what is still missing is swapped or recomputed, whichever delays less, and recomputed in order of memory
//! saving per second (MSPS). Swapped values come back at an in-trigger, an access one copy's time before they are
//! needed, or earlier if others need the lane; recomputation is on demand.
//!
//! Departures from the paper:
//!
//! - The time of copies is predicted, with the contention of the lanes.
//! - There an in-trigger moves earlier, iteration by iteration, when the access that it is for had to wait. Here all
//!   move together, by parts of their copies' times, and the fastest on the simulation is followed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::liveness::Dataflow;

use super::published::{Limits, Plan, Plans, Swap, book, excess_bytes};

/// Parts of its copy's time by which an in-trigger comes earlier than predicted, which are tried.
const EARLIER: [f64; 5] = [0.0, 0.25, 0.5, 1.0, 2.0];
/// Ops that are counted as one recomputation, at the most.
const MOST_REMADE_OPS: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Capuchin;

impl Plans for Capuchin {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan> {
        let choosing = choose(flow, limits);
        let mut plans: Vec<Plan> = Vec::new();
        for part in EARLIER {
            let plan = choosing.plan(part);
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

fn choose(flow: &Dataflow, limits: Limits) -> Choosing<'_> {
    let mut left = excess_bytes(flow, limits);
    let mut choosing = Choosing { flow, swaps: Vec::new(), dropped: vec![None; flow.values.len()] };
    let is_feature_map = |access: &Swap| !flow.values[access.value].persists;
    let mut accesses: Vec<Swap> =
        Swap::all(flow).filter(|access| is_feature_map(access) && helps(&left, access)).collect();
    accesses.sort_by_key(|access| (Reverse(access.absence_ns(flow)), access.gap));
    accesses.retain(|access| {
        let hidden = limits.offload && helps(&left, access) && choosing.delay_ns(Some(*access)) == 0;
        if hidden {
            relieve(&mut left, access);
            choosing.swaps.push(*access);
        }
        !hidden
    });
    // What recomputation saves per second only falls as more is dropped, so that a figure is worked out anew when it is the
    // largest.
    let saved =
        |choosing: &Choosing, at: usize| Some((choosing.saved_per_second(&accesses[at])?, Reverse(at)));
    let places = 0..if limits.recompute { accesses.len() } else { 0 };
    let mut by_saving: BinaryHeap<_> = places.filter_map(|at| saved(&choosing, at)).collect();
    let mut taken = vec![false; accesses.len()];
    let mut next_swap = 0;
    while left.iter().any(|&bytes| bytes > 0) {
        let useful = |at: usize| !taken[at] && helps(&left, &accesses[at]);
        next_swap = (next_swap..accesses.len()).find(|&at| useful(at)).unwrap_or(accesses.len());
        let swap = (limits.offload && next_swap < accesses.len()).then_some(next_swap);
        let mut drop = None;
        while let Some((stale, Reverse(at))) = by_saving.pop() {
            match saved(&choosing, at).filter(|_| useful(at)) {
                Some(fresh) if fresh.0 == stale => drop = Some(fresh),
                Some(fresh) => by_saving.push(fresh),
                None => {}
            }
            if drop.is_some() {
                break;
            }
        }
        let before_ns = choosing.delay_ns(None);
        let swap_ns = swap.map(|at| choosing.delay_ns(Some(accesses[at])).saturating_sub(before_ns));
        let remake_ns = drop.and_then(|(_, Reverse(at))| choosing.remake_ns(&accesses[at]));
        let swaps = swap_ns.is_some_and(|swap_ns| remake_ns.is_none_or(|remake_ns| swap_ns <= remake_ns));
        let Some(at) = (if swaps { swap } else { drop.map(|(_, Reverse(at))| at) }) else { break };
        relieve(&mut left, &accesses[at]);
        taken[at] = true;
        if swaps {
            choosing.swaps.push(accesses[at]);
            by_saving.extend(drop);
        } else {
            choosing.dropped[accesses[at].value] = Some(accesses[at]);
        }
    }
    choosing
}

fn helps(left: &[usize], access: &Swap) -> bool {
    left[access.ops()].iter().any(|&bytes| bytes > 0)
}

/// Takes a value's bytes off what is missing.
fn relieve(left: &mut [usize], access: &Swap) {
    let excess = left[access.ops()].iter_mut();
    excess.for_each(|excess| *excess = excess.saturating_sub(access.size_bytes));
}

/// What was chosen so far.
struct Choosing<'a> {
    flow: &'a Dataflow,
    swaps: Vec<Swap>,
    /// By value.
    dropped: Vec<Option<Swap>>,
}

impl Choosing<'_> {
    /// How late swapped values are, with one more.
    fn delay_ns(&self, more: Option<Swap>) -> u64 {
        let booked = book(self.flow, self.swaps.iter().copied().chain(more).collect());
        booked.iter().map(|booked| booked.out_end_ns.saturating_sub(booked.in_begin_ns)).sum()
    }

    /// What was chosen, with in-triggers so much earlier than predicted.
    fn plan(&self, earlier: f64) -> Plan {
        let mut plan = Plan::default();
        for mut booked in book(self.flow, self.swaps.clone()) {
            let earlier_ns = (booked.swap.copy_ns as f64 * earlier) as u64;
            booked.in_begin_ns = booked.in_begin_ns.saturating_sub(earlier_ns);
            plan.swap_as_booked(self.flow, &booked);
        }
        self.dropped.iter().flatten().for_each(|access| plan.drop(self.flow, access.gap));
        plan
    }

    /// Bytes saved per second of recomputation.
    fn saved_per_second(&self, access: &Swap) -> Option<u64> {
        let bytes = self.flow.values[access.value].size_bytes as u64;
        Some(bytes.saturating_mul(1_000_000_000) / self.remake_ns(access)?.max(1))
    }

    /// Predicted time to make a value again when it is accessed: with what it is made from and is not there then. None if
    /// that cannot be.
    fn remake_ns(&self, access: &Swap) -> Option<u64> {
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
            if !self.flow.ops[op].exact || ops.len() == MOST_REMADE_OPS {
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

    /// Four layers; what the second makes is large.
    const LAYERS: [(&str, usize); 4] = [("conv", 500), ("conv", 4000), ("relu", 500), ("matmul", 500)];

    fn planned(flow: &Dataflow, budget_bytes: usize, offload: bool, recompute: bool) -> Plan {
        choose(flow, Limits { budget_bytes, offload, recompute, algorithms: false }).plan(0.0)
    }

    #[test]
    fn what_fits_stays() {
        let flow = chain(500, &LAYERS);
        assert_eq!(planned(&flow, flow.peak_bytes(), true, true), Plan::default());
    }

    #[test]
    fn what_is_hidden_is_swapped_the_longest_free_time_first() {
        let flow = chain(500, &LAYERS);
        let plan = planned(&flow, flow.peak_bytes() - 400, true, true);
        let kept = kept_input(&flow, 4, 0);
        assert_eq!(plan.releases, [(flow.gaps[kept].from, kept, Eviction::Offload)]);
        // It is back before it is needed.
        let (until, _) = flow.gaps[kept].until.unwrap();
        assert!(plan.fetches.iter().all(|&(op, gap)| gap == kept && op < until));
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
        // Of the large value, both copies take eight microseconds, and its op one.
        let large = input_of(4, 2);
        let how = |plan: &Plan| {
            plan.releases.iter().find(|release| flow.gaps[release.1].value == large).map(|release| release.2)
        };
        assert_eq!(how(&planned(&flow, 3000, true, true)), Some(Eviction::Drop));
        assert_eq!(how(&planned(&flow, 3000, true, false)), Some(Eviction::Offload));
        assert_eq!(how(&planned(&flow, 3000, false, true)), Some(Eviction::Drop));
    }

    #[test]
    fn a_recomputation_costs_all_that_is_not_there() {
        let flow = chain(500, &LAYERS);
        let mut choosing =
            Choosing { flow: &flow, swaps: Vec::new(), dropped: vec![None; flow.values.len()] };
        let access = |place| {
            let gap = kept_input(&flow, 4, place);
            Swap::all(&flow).find(|swap| swap.gap == gap).unwrap()
        };
        assert_eq!(choosing.remake_ns(&access(3)), Some(1000));
        choosing.dropped[input_of(4, 2)] = Some(access(2));
        assert_eq!(choosing.remake_ns(&access(3)), Some(2000));
        // The batch cannot be made again.
        assert_eq!(choosing.remake_ns(&access(0)), None);
    }
}
