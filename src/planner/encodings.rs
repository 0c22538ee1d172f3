//! The values that could wait in fewer bits without loss, ranked by what that is worth. The search tries them in this order.

use super::problem::Planner;
use crate::liveness::{Dataflow, Interval};
use crate::policy::lossless;
use crate::schedule::{Eviction, IntervalId};

impl Planner<'_> {
    /// The intervals in which values can wait in fewer bits, and how they leave. The first cost nothing, the next save the most
    /// for their time.
    pub fn encodings(&self) -> Vec<(IntervalId, Eviction)> {
        let flow = self.iteration.dataflow(&self.profile.props);
        ranked(&flow, lossless(&flow, self.limits()))
    }
}

fn ranked(flow: &Dataflow, mut found: Vec<(usize, Eviction)>) -> Vec<(IntervalId, Eviction)> {
    found.sort_by(|one, other| worth(flow, other.0, other.1).total_cmp(&worth(flow, one.0, one.1)));
    found.into_iter().map(|(interval, method)| (IntervalId(interval as u32), method)).collect()
}

/// The bytes saved, times how long, divided by the predicted time of encoding and decoding.
fn worth(flow: &Dataflow, interval: usize, method: Eviction) -> f64 {
    let Eviction::Encode(encoding) = method else { return f64::INFINITY };
    let Interval { value, from, until, .. } = flow.intervals[interval];
    let value = &flow.values[value];
    let count = value.origin.map_or(0, |origin| origin.view.shape().count());
    let kept_bytes = encoding.size_bytes(count);
    let until_ns = until.map_or(flow.end_ns(), |(op, _)| flow.begin_ns(op));
    let away_ns = until_ns.saturating_sub(flow.begin_ns(from));
    let passes = if encoding.is_read_as_it_is() { 1 } else { 2 };
    let cost_ns = passes * flow.stream_ns(value.size_bytes + kept_bytes);
    value.size_bytes.saturating_sub(kept_bytes) as f64 * away_ns as f64 / cost_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::NewOp;
    use crate::op::{Counts, Dtype, Encoding, Op, Origin, Reads, Shape, Unary, View};

    #[test]
    fn what_saves_the_most_for_its_time_comes_first() {
        let mut flow = Dataflow { memory_bytes_per_second: 1e9, overhead_ns: 1000, ..Dataflow::default() };
        // Large and small values in turn. The first waits for the longest time.
        let counts = [4096, 64, 4096, 64, 4096, 64, 4096, 64];
        let values = counts.map(|count| flow.value(4 * count, 100, false));
        let mut op = |inputs: &[(usize, Reads)], outputs: &[usize]| {
            let (name, launch_ns, extra_bytes, exact) = ("relu", 1000, 0, true);
            flow.op(&NewOp { name, launch_ns, extra_bytes, exact, inputs, outputs });
        };
        values.iter().for_each(|&value| op(&[], &[value]));
        values.iter().rev().for_each(|&value| op(&[(value, Reads::Values)], &[]));
        for (&value, count) in values.iter().zip(counts) {
            let view = View::contiguous(Dtype::F32, Shape::new(&[count]));
            let op = Op::Unary(Unary::Relu);
            flow.values[value].origin =
                Some(Origin { op, input: Some(view), place: 0, view, counts: Counts::default() });
        }
        flow.finish();
        let signs = Eviction::Encode(Encoding::Signs);
        let found = values.iter().map(|&value| (flow.values[value].intervals[0], signs)).collect();
        let ranked =
            ranked(&flow, found).into_iter().map(|(interval, _)| flow.intervals[interval.0 as usize].value);
        // Large values come first, and of these the value that waits for the longest time.
        assert_eq!(ranked.collect::<Vec<_>>(), [0, 2, 4, 6, 1, 3, 5, 7].map(|at| values[at]));
    }
}
