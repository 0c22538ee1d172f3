//! Zhang et al., *Efficient Memory Management for GPU-based Deep Learning Systems*, arXiv:1903.06631, section 4: AutoSwap.
//! Of the values that are untouched around the moment of the highest load, those with the highest priority are swapped until
//! the load is within the limit: out as soon as they are untouched, in so late that none delays another.
//!
//! The paper finds the weights of a combination of its four scores by Bayesian optimisation on a simulation; here each score
//! alone and their even combination are tried there.

use crate::liveness::Dataflow;

use super::published::{Limits, Plan, Plans, Swap, book, excess_bytes};

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
    /// The sum of all four, each as a part of its largest.
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

impl Plans for AutoSwap {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan> {
        if !limits.offload {
            return vec![Plan::default()];
        }
        let swaps = swaps(flow);
        let chosen = Score::ALL.map(|score| select(flow, &swaps, score, limits));
        chosen.map(|chosen| self.plan_of(flow, chosen)).into()
    }
}

impl AutoSwap {
    fn plan_of(self, flow: &Dataflow, chosen: Vec<Swap>) -> Plan {
        let mut plan = Plan::default();
        for booked in book(flow, chosen) {
            if self == AutoSwap::StickToLimit || booked.out_end_ns <= booked.in_begin_ns {
                plan.swap_as_booked(flow, &booked);
            }
        }
        plan
    }
}

/// The gaps around the highest load.
fn swaps(flow: &Dataflow) -> Vec<Swap> {
    let peak_bytes = flow.peak_bytes();
    let spans = |swap: &Swap| swap.ops().any(|op| flow.ops[op].need_bytes == peak_bytes);
    Swap::all(flow).filter(|swap| swap.size_bytes >= LEAST_BYTES && spans(swap)).collect()
}

fn scores(flow: &Dataflow, swaps: &[Swap], score: Score, initial: &[usize], left: &[usize]) -> Vec<f64> {
    let weighed = |swap: &Swap, excess: &[usize]| -> f64 {
        swap.ops().map(|op| excess[op] as f64 * flow.ops[op].launch_ns as f64).sum()
    };
    let one = |swap: &Swap| match score {
        Score::Doa => swap.absence_ns(flow) as f64,
        Score::Aoa => {
            let (absence_ns, size) = (swap.absence_ns(flow) as f64, swap.size_bytes as f64);
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
fn select(flow: &Dataflow, swaps: &[Swap], score: Score, limits: Limits) -> Vec<Swap> {
    let initial = excess_bytes(flow, limits);
    let mut left = initial.clone();
    let mut open = swaps.to_vec();
    let mut known = scores(flow, &open, score, &initial, &left);
    let mut chosen = Vec::new();
    while left.iter().any(|&bytes| bytes > 0) {
        let best = (0..open.len()).max_by(|&a, &b| known[a].total_cmp(&known[b]).then(b.cmp(&a)));
        let Some(best) = best else { break };
        let swap = open.swap_remove(best);
        known.swap_remove(best);
        let helps = swap.ops().any(|op| left[op] > 0);
        if !helps {
            continue;
        }
        for excess in &mut left[swap.ops()] {
            *excess = excess.saturating_sub(swap.size_bytes);
        }
        chosen.push(swap);
        if matches!(score, Score::Swdoa | Score::Combined) {
            known = scores(flow, &open, score, &initial, &left);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::NewOp;
    use crate::op::Reads;

    const MIB: usize = 1 << 20;

    /// Values of two, one and four MiB, made by the first three of ten ops of ten milliseconds each and read by the last three,
    /// the first made being read last; a MiB is copied in a millisecond.
    fn nested() -> Dataflow {
        let mut flow = Dataflow::default();
        let sizes = [2 * MIB, MIB, 4 * MIB];
        let values = sizes.map(|bytes| flow.value(bytes, (bytes / MIB) as u64 * 1_000_000, false));
        for at in 0..10 {
            let inputs: Vec<(usize, Reads)> = values
                .iter()
                .copied()
                .filter(|&value| value + at == 9)
                .map(|value| (value, Reads::Values))
                .collect();
            let outputs: Vec<usize> = values.iter().copied().filter(|&value| value == at).collect();
            let (launch_ns, extra_bytes) = (10_000_000, 0);
            flow.op(&NewOp {
                name: "op",
                launch_ns,
                extra_bytes,
                exact: true,
                inputs: &inputs,
                outputs: &outputs,
            });
        }
        values.into_iter().for_each(|value| flow.values[value].freed_after = Some(9 - value));
        flow.finish();
        flow
    }

    fn limits(budget_bytes: usize) -> Limits {
        Limits { budget_bytes, offload: true, recompute: false, algorithms: false }
    }

    #[test]
    fn the_four_scores() {
        let flow = nested();
        let swaps = swaps(&flow);
        assert_eq!(swaps.len(), 3);
        // Three MiB too many from the third op on, while all three are there.
        let initial = excess_bytes(&flow, limits(4 * MIB));
        assert_eq!(initial[1..9], [0, 3, 3, 3, 3, 3, 3, 0].map(|excess| excess * MIB));
        let of = |score, left: &[usize]| scores(&flow, &swaps, score, &initial, left);
        // Eight ops less four milliseconds, six less two, four less eight.
        assert_eq!(of(Score::Doa, &initial), [76e6, 58e6, 32e6]);
        assert_eq!(of(Score::Aoa, &initial), [76e6 * 2.0, 58e6, 32e6 * 4.0].map(|area| area * MIB as f64));
        let weighed = |ops: f64, excess: f64| ops * 10e6 * excess * MIB as f64;
        assert_eq!(of(Score::Wdoa, &initial), [weighed(6.0, 3.0), weighed(6.0, 3.0), weighed(4.0, 3.0)]);
        // With the first chosen, a MiB is left.
        let left: Vec<usize> = initial.iter().map(|excess| excess.saturating_sub(2 * MIB)).collect();
        assert_eq!(of(Score::Swdoa, &left), [weighed(6.0, 1.0), weighed(6.0, 1.0), weighed(4.0, 1.0)]);
        let combined = of(Score::Combined, &initial);
        assert_eq!(combined[0], 4.0);
    }

    #[test]
    fn as_many_are_swapped_as_keep_the_limit() {
        let flow = nested();
        let chosen = |score| {
            let mut values: Vec<usize> =
                select(&flow, &swaps(&flow), score, limits(4 * MIB)).iter().map(|swap| swap.value).collect();
            values.sort_unstable();
            values
        };
        assert_eq!(chosen(Score::Doa), [0, 1]);
        // The op that makes the last value, and that reads it, need the first two gone too.
        assert_eq!(chosen(Score::Aoa), [0, 1, 2]);
    }

    #[test]
    fn copies_that_would_be_late_are_left_out_where_no_time_may_be_lost() {
        let mut flow = nested();
        flow.values[2].copy_ns = 25_000_000;
        let all = swaps(&flow);
        let gaps = |plan: &Plan| {
            let mut gaps: Vec<usize> =
                plan.releases.iter().map(|release| flow.gaps[release.1].value).collect();
            gaps.sort_unstable();
            gaps
        };
        assert_eq!(gaps(&AutoSwap::StickToLimit.plan_of(&flow, all.clone())), [0, 1, 2]);
        assert_eq!(gaps(&AutoSwap::NoOverhead.plan_of(&flow, all)), [0, 1]);
    }
}
