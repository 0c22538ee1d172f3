//! Zhang et al., *Efficient Memory Management for GPU-based Deep Learning Systems*, arXiv:1903.06631, section 4: AutoSwap.
//! Of the values that are untouched around the moment of the highest load, those with the highest priority are swapped until
//! the load is within the limit: out as soon as they are untouched, in so late that none delays another.
//!
//! The paper finds the weights of a combination of its four scores by Bayesian optimisation on a simulation; here each score
//! alone and their even combination are tried there.

use std::cmp::Reverse;

use crate::liveness::Dataflow;

use super::published::{Limits, Plan};
use super::tensor_cache::TensorCache;
use super::{Candidate, Eviction, Reactive, Ways};

/// Smaller values stay.
const LEAST_BYTES: usize = 1 << 20;

/// What a swap is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// Duration of absence: the time between the end of the copy out and the beginning of that in.
    Doa,
    /// Area of absence: that times the size.
    Aoa,
    /// Weighted duration of absence: the load above the limit, added up over the absence.
    Wdoa,
    /// The same, of the load that is left by what was chosen before (submodular).
    Swdoa,
    /// The mean of all four, each as a part of its largest.
    Combined,
}

impl Score {
    const ALL: [Score; 5] = [Score::Combined, Score::Swdoa, Score::Wdoa, Score::Aoa, Score::Doa];
}

/// What the limit is to cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoSwap {
    /// Whatever it takes.
    StickToLimit,
    /// No time: nothing is swapped whose copies do not end before it is needed.
    NoOverhead,
}

impl Reactive for AutoSwap {
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        TensorCache.pick(need_bytes, candidates)
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        TensorCache.how(ways)
    }

    fn plans(&self) -> bool {
        true
    }

    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan> {
        if !limits.offload {
            return vec![Plan::default()];
        }
        let swaps = swaps(flow);
        let chosen = Score::ALL.map(|score| select(flow, &swaps, score, limits.budget_bytes));
        chosen.map(|chosen| self.book(flow, chosen)).into()
    }
}

/// A value that may be swapped in a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Swap {
    gap: usize,
    from: usize,
    until: usize,
    size_bytes: usize,
    copy_ns: u64,
}

impl Swap {
    /// When the copy out can begin and that in must end.
    fn times_ns(&self, flow: &Dataflow) -> (u64, u64) {
        (flow.begin_ns(self.from + 1), flow.begin_ns(self.until))
    }

    fn absence_ns(&self, flow: &Dataflow) -> f64 {
        let (out_ns, in_ns) = self.times_ns(flow);
        in_ns as f64 - out_ns as f64 - 2.0 * self.copy_ns as f64
    }
}

/// The gaps around the highest load.
fn swaps(flow: &Dataflow) -> Vec<Swap> {
    let peak = (0..flow.ops.len()).max_by_key(|&op| (flow.ops[op].need_bytes, Reverse(op)));
    let Some(peak) = peak else { return Vec::new() };
    let swap = |(gap, entry): (usize, &crate::liveness::Gap)| {
        let value = &flow.values[entry.value];
        let until = entry.until.map(|(until, _)| until).filter(|&until| until < flow.ops.len())?;
        let swap =
            Swap { gap, from: entry.from, until, size_bytes: value.size_bytes, copy_ns: value.copy_ns };
        (value.size_bytes >= LEAST_BYTES && (swap.from + 1..until).contains(&peak)).then_some(swap)
    };
    flow.gaps.iter().enumerate().filter_map(swap).collect()
}

/// Load above the limit, by op.
fn excess_bytes(flow: &Dataflow, budget_bytes: usize) -> Vec<usize> {
    flow.ops.iter().map(|op| op.need_bytes.saturating_sub(budget_bytes)).collect()
}

fn scores(flow: &Dataflow, swaps: &[Swap], score: Score, initial: &[usize], left: &[usize]) -> Vec<f64> {
    let weighed = |swap: &Swap, excess: &[usize]| -> f64 {
        let ops = swap.from + 1..swap.until;
        ops.map(|op| excess[op] as f64 * flow.ops[op].launch_ns as f64).sum()
    };
    let one = |swap: &Swap| match score {
        Score::Doa => swap.absence_ns(flow),
        Score::Aoa => {
            let (absence_ns, size) = (swap.absence_ns(flow), swap.size_bytes as f64);
            // What cannot be hidden is the worse the smaller it is.
            if absence_ns >= 0.0 { absence_ns * size } else { absence_ns / size }
        }
        Score::Wdoa => weighed(swap, initial),
        Score::Swdoa | Score::Combined => weighed(swap, left),
    };
    if score != Score::Combined {
        return swaps.iter().map(one).collect();
    }
    let mut sums = vec![0.0; swaps.len()];
    for score in [Score::Doa, Score::Aoa, Score::Wdoa, Score::Swdoa] {
        let parts = scores(flow, swaps, score, initial, left);
        let largest = parts.iter().fold(1.0, |largest: f64, part| largest.max(part.abs()));
        sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part / largest);
    }
    sums
}

/// Chooses until the load is within the limit, the highest score first.
fn select(flow: &Dataflow, swaps: &[Swap], score: Score, budget_bytes: usize) -> Vec<Swap> {
    let initial = excess_bytes(flow, budget_bytes);
    let mut left = initial.clone();
    let mut open = swaps.to_vec();
    let mut known = scores(flow, &open, score, &initial, &left);
    let mut chosen = Vec::new();
    while left.iter().any(|&bytes| bytes > 0) {
        let best = (0..open.len()).max_by(|&a, &b| known[a].total_cmp(&known[b]).then(b.cmp(&a)));
        let Some(best) = best else { break };
        let swap = open.swap_remove(best);
        known.swap_remove(best);
        let helps = (swap.from + 1..swap.until).any(|op| left[op] > 0);
        if !helps {
            continue;
        }
        for excess in &mut left[swap.from + 1..swap.until] {
            *excess = excess.saturating_sub(swap.size_bytes);
        }
        chosen.push(swap);
        if matches!(score, Score::Swdoa | Score::Combined) {
            known = scores(flow, &open, score, &initial, &left);
        }
    }
    chosen
}

impl AutoSwap {
    /// Copies out follow each other in the order of the gaps; copies in are booked from the last backwards.
    fn book(self, flow: &Dataflow, mut chosen: Vec<Swap>) -> Plan {
        chosen.sort_by_key(|swap| (swap.from, swap.gap));
        let mut free_ns = 0;
        let out_ends_ns: Vec<u64> = (chosen.iter())
            .map(|swap| {
                free_ns = swap.times_ns(flow).0.max(free_ns) + swap.copy_ns;
                free_ns
            })
            .collect();
        let mut booked: Vec<(Swap, u64)> = chosen.into_iter().zip(out_ends_ns).collect();
        booked.sort_by_key(|(swap, _)| Reverse((swap.until, swap.gap)));
        let mut plan = Plan::default();
        let mut busy_from_ns = u64::MAX;
        for (swap, out_end_ns) in booked {
            let in_begin_ns = swap.times_ns(flow).1.min(busy_from_ns).saturating_sub(swap.copy_ns);
            if self == AutoSwap::NoOverhead && in_begin_ns < out_end_ns {
                continue;
            }
            busy_from_ns = in_begin_ns;
            // The first op that begins no earlier than the copy may.
            let back_before = flow.op_at(in_begin_ns.max(out_end_ns)).clamp(swap.from + 1, swap.until);
            plan.swap(flow, swap.gap, Some(back_before));
        }
        plan
    }
}
