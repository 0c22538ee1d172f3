//! Jain, Phanishayee, Mars, Tang, Pekhimenko, *Gist: Efficient Data Encoding for Deep Neural Network Training*, ISCA 2018. Gist
//! keeps a value in fewer bits between its last use in the forward pass and its use in the backward pass, by what this use
//! reads (section 4). `codec/` lists the encodings. As in the paper, Gist acts even if memory is not short, so the pool logs
//! from the first op on.
//!
//! Gist drops values that are held into the backward pass without being read there, such as the input of a max-pool, and values
//! that were made from nothing, such as the random numbers of a dropout. It leaves values alone that the program reads.
//!
//! Departures from the paper:
//!
//! - No execution graph is rewritten. A plan states what is encoded once the iteration is known.
//! - The input of a rectifier is kept instead of its output, since Burn's gradient reads the input.
//! - Values that are idle while the most memory is needed are encoded too, if that is lossless.
//! - Rounding and counted encodings (sparse forms, planes) are left out, those that save the least for their time first, as
//!   long as all of them take more than 4 % of the step, the time that the paper measures (section 5). A value that is not
//!   rounded is encoded without loss instead, if possible.

use crate::codec::smallest;
use crate::liveness::{Dataflow, Interval, Value};
use crate::op::{Counts, Encoding, FloatFormat, Origin, Reads};

use super::published::PublishedPolicy;
use super::published_plan::{Limits, PublishedPlan};
use crate::schedule::Eviction;

/// See the module.
#[derive(Debug)]
pub struct Gist {
    /// The format that values are rounded to, if they may be rounded.
    pub lossy: Option<FloatFormat>,
}

/// A value of less than this part of the need is not worth two ops.
const SMALL_PART: usize = 4096;
/// The fraction of the step's time that all encodings may take. Encodings that neither round nor count are part of that time
/// and are always used.
const MAX_OVERHEAD: f64 = 0.04;

/// The values that can wait in fewer bits without loss or need not be kept, whatever time that takes: the interval in which
/// each waits, and how it leaves.
pub fn lossless(flow: &Dataflow, limits: Limits) -> Vec<(usize, Eviction)> {
    let candidates = Gist { lossy: None }.candidates(flow, limits);
    candidates.into_iter().map(|candidate| (candidate.interval, candidate.method)).collect()
}

/// The op that needs the most memory.
fn fullest(flow: &Dataflow) -> usize {
    (0..flow.ops.len()).max_by_key(|&op| flow.ops[op].need_bytes).unwrap_or(0)
}

/// A value that could wait in fewer bits.
struct EncodingCandidate {
    interval: usize,
    method: Eviction,
    saved_bytes: usize,
    cost_ns: u64,
}

impl EncodingCandidate {
    fn ns_per_byte(&self) -> f64 {
        self.cost_ns as f64 / self.saved_bytes.max(1) as f64
    }
}

impl PublishedPolicy for Gist {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        let mut candidates = self.candidates(flow, limits);
        let mut left_ns = (flow.end_ns() as f64 * MAX_OVERHEAD) as u64;
        let mut plan = PublishedPlan::default();
        let is_weighed = |candidate: &EncodingCandidate| matches!(candidate.method, Eviction::Encode(encoding) if encoding.is_counted() || matches!(encoding, Encoding::Reduced(_)));
        let by_worth = |a: &EncodingCandidate, b: &EncodingCandidate| {
            is_weighed(a).cmp(&is_weighed(b)).then(a.ns_per_byte().total_cmp(&b.ns_per_byte()))
        };
        // A value that takes too long to round may take less time without rounding.
        for lossy in [self.lossy, None] {
            candidates.sort_by(by_worth);
            let mut too_costly = Vec::new();
            for candidate in candidates {
                if is_weighed(&candidate) && candidate.cost_ns > left_ns {
                    too_costly.push(flow.intervals[candidate.interval].value);
                    continue;
                }
                left_ns = left_ns.saturating_sub(candidate.cost_ns);
                plan.release(flow, candidate.interval, candidate.method);
            }
            let lossless = |place: usize| Self::candidate(flow, limits, place, fullest(flow), None);
            candidates = too_costly.into_iter().filter(|_| lossy.is_some()).filter_map(lossless).collect();
        }
        vec![plan]
    }

    fn encodes(&self) -> bool {
        true
    }
}

impl Gist {
    /// The best encoding of each value that is large enough.
    fn candidates(&self, flow: &Dataflow, limits: Limits) -> Vec<EncodingCandidate> {
        let (least_bytes, fullest) = (flow.peak_bytes() / SMALL_PART, fullest(flow));
        let candidate = |(place, value): (usize, &Value)| {
            // This includes weights, wherever in their update the iteration begins.
            let outlives = value.persists || value.freed_after.is_none();
            let left_alone = value.size_bytes < least_bytes || outlives || value.is_read;
            if left_alone { None } else { Self::candidate(flow, limits, place, fullest, self.lossy) }
        };
        flow.values.iter().enumerate().filter_map(candidate).collect()
    }

    /// The best encoding of a value. `fullest` is the op that needs the most memory.
    fn candidate(
        flow: &Dataflow,
        limits: Limits,
        place: usize,
        fullest: usize,
        lossy: Option<FloatFormat>,
    ) -> Option<EncodingCandidate> {
        let value = &flow.values[place];
        let origin = value.origin.as_ref()?;
        let dropped = |interval: usize, cost_ns: u64| {
            let candidate = EncodingCandidate {
                interval,
                method: Eviction::Drop,
                saved_bytes: value.size_bytes,
                cost_ns,
            };
            Some(candidate).filter(|_| limits.recompute)
        };
        if let Some((interval, _)) = flow.dead_but_held(place) {
            return dropped(interval, 0);
        }
        let waits = flow.kept_for_backward(place);
        if let (Some((interval, _)), None, Some(op)) = (waits, origin.input, value.made_by) {
            return dropped(interval, flow.ops[op].launch_ns);
        }
        let is_idle_then = |interval: &Interval| {
            interval.from < fullest
                && interval.until.is_some_and(|(until, _)| (fullest + 1..flow.ops.len()).contains(&until))
        };
        let idle = || {
            value
                .intervals
                .iter()
                .map(|&interval| (interval, flow.intervals[interval]))
                .find(|(_, interval)| is_idle_then(interval))
        };
        let (interval, _) = waits.or_else(idle)?;
        // Byte planes save too little except for activations.
        let counts = Counts { units: origin.counts.units.filter(|_| waits.is_some()), ..origin.counts };
        let origin = &Origin { counts, ..*origin };
        // Without recomputation the values are kept, whatever their uses read.
        let reads = if limits.recompute { flow.coming_reads(place, interval) } else { Reads::Values };
        // Only values that are known to wait for the backward pass are rounded.
        let encoding = smallest(origin, reads, lossy.filter(|_| waits.is_some()))?;
        let bytes = encoding.size_bytes(origin.view.shape().count());
        let saved_bytes = value.size_bytes.saturating_sub(bytes);
        // If nothing is decoded, the backward pass reads less.
        let (ops, saved_ns) =
            if encoding.is_read_as_it_is() { (1, flow.stream_ns(saved_bytes)) } else { (2, 0) };
        // Counting reads the value once more.
        let counting_ns = if encoding.is_counted() { flow.stream_ns(value.size_bytes) } else { 0 };
        Some(EncodingCandidate {
            interval,
            method: Eviction::Encode(encoding),
            saved_bytes,
            cost_ns: (ops * flow.stream_ns(value.size_bytes + bytes) + counting_ns).saturating_sub(saved_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Dtype, Op, Shape, Unary, View};
    use crate::policy::testing::{chain, input_of, kept_input};

    const LIMITS: Limits = Limits { budget_bytes: 0, offload: true, recompute: true, algorithms: false };
    const LAYERS: [(&str, usize); 3] = [("conv", 4096), ("conv", 8192), ("matmul", 1024)];

    /// A chain whose values are floats from a rectifier.
    fn flow() -> Dataflow {
        let mut flow = chain(2048, &LAYERS);
        for value in flow.values.iter_mut().filter(|value| value.made_by.is_some()) {
            let view = View::contiguous(Dtype::F32, Shape::new(&[value.size_bytes / 4]));
            value.origin = Some(Origin {
                op: Op::Unary(Unary::Relu),
                input: Some(view),
                place: 0,
                view,
                counts: Counts::default(),
            });
        }
        flow
    }

    /// The encoded intervals, and their encodings.
    fn planned(flow: &Dataflow, lossy: Option<FloatFormat>) -> Vec<(usize, Eviction)> {
        let releases = Gist { lossy }.plan(flow, LIMITS).remove(0).releases;
        let encoded = releases.into_iter().filter(|(_, _, method)| *method != Eviction::Drop);
        encoded.map(|(_, interval, method)| (interval, method)).collect()
    }

    #[test]
    fn what_waits_for_the_backward_pass_is_rounded_only_where_that_is_asked_for() {
        let flow = flow();
        assert_eq!(planned(&flow, None), []);
        let half = Eviction::Encode(Encoding::Reduced(FloatFormat::F16));
        let releases = planned(&flow, Some(FloatFormat::F16));
        let kept = [1, 2].map(|place| kept_input(&flow, LAYERS.len(), place));
        assert!(kept.iter().all(|&interval| releases.contains(&(interval, half))), "{releases:?}");
    }

    #[test]
    fn what_the_program_reads_is_left_alone() {
        let mut flow = flow();
        flow.values[input_of(LAYERS.len(), 1)].is_read = true;
        let releases = planned(&flow, Some(FloatFormat::F16));
        let [read, other] = [1, 2].map(|place| kept_input(&flow, LAYERS.len(), place));
        assert!(
            releases.iter().all(|&(interval, _)| interval != read)
                && releases.iter().any(|&(interval, _)| interval == other)
        );
    }

    #[test]
    fn what_outlives_the_iteration_is_left_alone() {
        // A weight that is made as the iteration begins. Its update looks like an op of the forward pass.
        let mut flow = flow();
        flow.values[input_of(LAYERS.len(), 1)].freed_after = None;
        let weight = kept_input(&flow, LAYERS.len(), 1);
        let releases = planned(&flow, Some(FloatFormat::Fp8E4m3));
        assert!(
            releases.iter().all(|&(interval, _)| interval != weight) && !releases.is_empty(),
            "{releases:?}"
        );
    }

    #[test]
    fn rounding_takes_a_part_of_the_time_at_the_most() {
        let mut flow = flow();
        // One of the two values takes half of the allowed time, and the larger one more than the rest.
        let most_ns = flow.end_ns() as f64 * MAX_OVERHEAD;
        flow.memory_bytes_per_second = 2.0 * 1.5 * 4096.0 / (0.5 * most_ns) * 1e9;
        let releases = planned(&flow, Some(FloatFormat::F16));
        let [small, large] = [1, 2].map(|place| kept_input(&flow, LAYERS.len(), place));
        let intervals: Vec<usize> = releases.iter().map(|&(interval, _)| interval).collect();
        assert!(intervals.contains(&small) != intervals.contains(&large), "{intervals:?}");
    }

    #[test]
    fn what_is_dead_but_held_is_dropped() {
        // What the last layer makes is read as the backward pass begins, and held until it is there.
        let flow = flow();
        let scores = input_of(LAYERS.len(), LAYERS.len());
        let (interval, _) = flow.dead_but_held(scores).expect("it is");
        let releases = Gist { lossy: None }.plan(&flow, LIMITS).remove(0).releases;
        assert_eq!(releases, [(flow.intervals[interval].from, interval, Eviction::Drop)]);
        let limits = Limits { recompute: false, ..LIMITS };
        assert_eq!(Gist { lossy: None }.plan(&flow, limits), [PublishedPlan::default()]);
    }

    #[test]
    fn signs_suffice_where_they_are_all_that_is_read() {
        let mut flow = flow();
        let value = input_of(LAYERS.len(), 1);
        for place in flow.values[value].intervals.clone() {
            flow.intervals[place].until = flow.intervals[place].until.map(|(op, _)| (op, Reads::Signs));
        }
        let expected = (kept_input(&flow, LAYERS.len(), 1), Eviction::Encode(Encoding::Signs));
        assert_eq!(planned(&flow, None), [expected]);
    }
}
