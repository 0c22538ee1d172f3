//! Zhang et al., *Efficient Memory Management for GPU-based Deep Learning Systems*, arXiv:1903.06631, section 4: AutoSwap. It
//! considers the values that are untouched around the moment of the highest load, and swaps those with the highest priority
//! until the load is within the limit. A value is copied out as soon as it is untouched, and back as late as possible without
//! delaying another.
//!
//! Departures from the paper:
//!
//! - The paper finds the weights of its four scores by Bayesian optimization on a simulation. Here all weights in thirds,
//!   including each score alone, and the even combination are tried on the simulation, and the fastest plan is followed.
//! - Weights of the network may be swapped too.

use crate::liveness::Dataflow;

use super::published::PublishedPolicy;
use super::published_plan::{Limits, PublishedPlan, Swap, excess_bytes, reserve_copies};

/// Smaller values are not swapped.
const MIN_BYTES: usize = 1 << 20;

/// The priority of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// Duration of absence: the time from the end of the copy out to the beginning of the copy in.
    Doa,
    /// Area of absence: the duration times the size.
    Aoa,
    /// Weighted duration of absence: the load above the limit, integrated over the absence.
    Wdoa,
    /// The same for the load that earlier choices leave (submodular).
    Swdoa,
}

impl Score {
    const ALL: [Score; 4] = [Score::Doa, Score::Aoa, Score::Wdoa, Score::Swdoa];
}

/// The weight of each of [`Score::ALL`], in this order. Each score counts relative to its largest value.
type Weights = [u8; 4];

/// The sum of the weights.
const PARTS: u8 = 3;

/// All weights that are tried, the even combination first.
fn weights() -> impl Iterator<Item = Weights> {
    let combinations = (0..=PARTS).flat_map(|doa| {
        (0..=PARTS - doa).flat_map(move |aoa| {
            (0..=PARTS - doa - aoa).map(move |wdoa| [doa, aoa, wdoa, PARTS - doa - aoa - wdoa])
        })
    });
    std::iter::once([1; 4]).chain(combinations)
}

/// What keeping the limit may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoSwap {
    /// Any time.
    StickToLimit,
    /// No time: a value is swapped only if its copies end before it is needed.
    NoOverhead,
}

impl PublishedPolicy for AutoSwap {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        if !limits.offload {
            return vec![PublishedPlan::default()];
        }
        let swaps = swaps(flow);
        let mut plans: Vec<PublishedPlan> = Vec::new();
        for weights in weights() {
            let plan = self.plan_of(flow, select(flow, &swaps, weights, limits));
            if !plans.contains(&plan) {
                plans.push(plan);
            }
        }
        plans
    }
}

impl AutoSwap {
    fn plan_of(self, flow: &Dataflow, chosen: Vec<Swap>) -> PublishedPlan {
        let mut plan = PublishedPlan::default();
        for reserved in reserve_copies(flow, chosen) {
            if self == AutoSwap::StickToLimit || reserved.out_end_ns <= reserved.in_begin_ns {
                plan.swap_as_reserved(flow, &reserved);
            }
        }
        plan
    }
}

/// The swaps around the highest load.
fn swaps(flow: &Dataflow) -> Vec<Swap> {
    let peak_bytes = flow.peak_bytes();
    let spans = |swap: &Swap| swap.ops().any(|op| flow.ops[op].need_bytes == peak_bytes);
    Swap::all(flow).filter(|swap| swap.size_bytes >= MIN_BYTES && spans(swap)).collect()
}

/// The load above the limit, integrated until each op begins.
struct Load(Vec<u128>);

impl Load {
    fn new(flow: &Dataflow, excess_bytes: &[usize]) -> Self {
        let mut sum = 0;
        let sums = flow.ops.iter().zip(excess_bytes).map(|(op, &bytes)| {
            sum += bytes as u128 * u128::from(op.launch_ns);
            sum
        });
        Load(std::iter::once(0).chain(sums).collect())
    }

    fn during(&self, swap: &Swap) -> f64 {
        let ops = swap.ops();
        (self.0[ops.end] - self.0[ops.start]) as f64
    }
}

fn scores(flow: &Dataflow, swaps: &[Swap], score: Score, initial: &Load, left: &Load) -> Vec<f64> {
    let one = |swap: &Swap| match score {
        Score::Doa => swap.absence_ns(flow) as f64,
        Score::Aoa => {
            let (absence_ns, size) = (swap.absence_ns(flow) as f64, swap.size_bytes as f64);
            // A copy that cannot be hidden is the worse the smaller the value is.
            if absence_ns >= 0.0 { absence_ns * size } else { absence_ns / size }
        }
        Score::Wdoa => initial.during(swap),
        Score::Swdoa => left.during(swap),
    };
    swaps.iter().map(one).collect()
}

/// The weighted sum of the scores of each swap.
fn worths(flow: &Dataflow, swaps: &[Swap], weights: Weights, initial: &Load, left: &Load) -> Vec<f64> {
    let mut sums = vec![0.0; swaps.len()];
    for (score, weight) in Score::ALL.into_iter().zip(weights).filter(|&(_, weight)| weight > 0) {
        let parts = scores(flow, swaps, score, initial, left);
        let largest = parts.iter().fold(1.0, |largest: f64, part| largest.max(part.abs()));
        sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += f64::from(weight) * part / largest);
    }
    sums
}

/// Chooses swaps by their worth until the load is within the limit.
fn select(flow: &Dataflow, swaps: &[Swap], weights: Weights, limits: Limits) -> Vec<Swap> {
    let mut left = excess_bytes(flow, limits);
    let initial = Load::new(flow, &left);
    let mut open = swaps.to_vec();
    let mut known = worths(flow, &open, weights, &initial, &initial);
    let [.., submodular] = weights;
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
        if submodular > 0 {
            known = worths(flow, &open, weights, &initial, &Load::new(flow, &left));
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

    /// Values of two, one and four MiB. The first three of ten ops make them and the last three read them, the first value
    /// last. Each op takes ten milliseconds, and a MiB is copied in a millisecond.
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
        // The load is three MiB too high from the third op on, while all three values exist.
        let initial = excess_bytes(&flow, limits(4 * MIB));
        assert_eq!(initial[1..9], [0, 3, 3, 3, 3, 3, 3, 0].map(|excess| excess * MIB));
        let load = |left: &[usize]| Load::new(&flow, left);
        let of = |score, left: &[usize]| scores(&flow, &swaps, score, &load(&initial), &load(left));
        // The time of eight ops less four milliseconds, of six less two, and of four less eight.
        assert_eq!(of(Score::Doa, &initial), [76e6, 58e6, 32e6]);
        assert_eq!(of(Score::Aoa, &initial), [76e6 * 2.0, 58e6, 32e6 * 4.0].map(|area| area * MIB as f64));
        let weighed = |ops: f64, excess: f64| ops * 10e6 * excess * MIB as f64;
        assert_eq!(of(Score::Wdoa, &initial), [weighed(6.0, 3.0), weighed(6.0, 3.0), weighed(4.0, 3.0)]);
        // Once the first is chosen, one MiB is left.
        let left: Vec<usize> = initial.iter().map(|excess| excess.saturating_sub(2 * MIB)).collect();
        assert_eq!(of(Score::Swdoa, &left), [weighed(6.0, 1.0), weighed(6.0, 1.0), weighed(4.0, 1.0)]);
        let even = worths(&flow, &swaps, [1; 4], &load(&initial), &load(&initial));
        assert_eq!(even[0], 4.0);
        let doa = worths(&flow, &swaps, [3, 0, 0, 0], &load(&initial), &load(&initial));
        assert_eq!(doa, [76.0, 58.0, 32.0].map(|part| 3.0 * part / 76.0));
    }

    #[test]
    fn as_many_are_swapped_as_keep_the_limit() {
        let flow = nested();
        let chosen = |weights| {
            let mut values: Vec<usize> = select(&flow, &swaps(&flow), weights, limits(4 * MIB))
                .iter()
                .map(|swap| swap.value)
                .collect();
            values.sort_unstable();
            values
        };
        assert_eq!(chosen([3, 0, 0, 0]), [0, 1]);
        // The ops that make and read the last value need the first two values gone too.
        assert_eq!(chosen([0, 3, 0, 0]), [0, 1, 2]);
    }

    #[test]
    fn every_weight_in_thirds_is_tried_and_no_plan_twice() {
        let all: Vec<Weights> = weights().collect();
        assert_eq!(all.len(), 1 + 20);
        assert!(all[1..].iter().all(|weights| weights.iter().sum::<u8>() == PARTS));
        assert!(Score::ALL.iter().enumerate().all(|(at, _)| all.iter().any(|weights| weights[at] == PARTS)));
        // Three values give two different sets, as above.
        assert_eq!(AutoSwap::StickToLimit.plan(&nested(), limits(4 * MIB)).len(), 2);
    }

    #[test]
    fn copies_that_would_be_late_are_left_out_where_no_time_may_be_lost() {
        let mut flow = nested();
        flow.values[2].copy_ns = 25_000_000;
        let all = swaps(&flow);
        let intervals = |plan: &PublishedPlan| {
            let mut intervals: Vec<usize> =
                plan.releases.iter().map(|release| flow.intervals[release.1].value).collect();
            intervals.sort_unstable();
            intervals
        };
        assert_eq!(intervals(&AutoSwap::StickToLimit.plan_of(&flow, all.clone())), [0, 1, 2]);
        assert_eq!(intervals(&AutoSwap::NoOverhead.plan_of(&flow, all)), [0, 1]);
    }
}
