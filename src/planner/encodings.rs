//! Encodings beside what else a schedule does: tried like all else, on the simulation.

use std::sync::Arc;

use super::Planner;
use crate::liveness::{Dataflow, Gap};
use crate::policy::{Eviction, Limits, Plan, Policy, Schedule};

/// Parts of what can be encoded that are tried, of those that save the most for their time.
const PARTS: [f64; 6] = [1.0, 0.75, 0.5, 0.25, 0.125, 0.0625];

impl Planner<'_> {
    /// The fastest of `best` and of no schedule with a part of what Gist encodes without loss, if that is faster than without.
    ///
    /// What then needs not leave stays, since evictions are made when memory is short; but addresses that were planned for other
    /// blocks are of no use.
    pub fn encoded(&self, best: Option<&Arc<Schedule>>, limits: Limits) -> Option<Schedule> {
        let flow = self.iteration.dataflow(&self.profile.props);
        let gist = Policy::GistLossless.reactive(limits.offload, self.settings.gist_format);
        let plan = gist.plan(&flow, limits).pop()?;
        let parts = parts(&flow, &plan);
        let plain = Arc::new(self.iteration.schedule());
        let schedules: Vec<&Arc<Schedule>> = best.into_iter().chain([&plain]).collect();
        let tried =
            parts.iter().flat_map(|plan| schedules.iter().map(|schedule| Arc::new(with(schedule, plan))));
        let timed = tried.filter_map(|schedule| Some((self.run(Some(&schedule))?.step_ns, schedule)));
        let (step_ns, schedule) = timed.min_by_key(|&(step_ns, _)| step_ns)?;
        let without_ns = self.run(best).map_or(u64::MAX, |trial| trial.step_ns);
        (step_ns < without_ns).then(|| Arc::unwrap_or_clone(schedule))
    }
}

/// Plans of which each encodes less than the one before: what saves the least memory, and that for the shortest time, for the time
/// that it takes is left out. What is dropped costs nothing and is so in each.
fn parts(flow: &Dataflow, plan: &Plan) -> Vec<Plan> {
    let mut ranked = plan.releases.clone();
    ranked.sort_by(|one, other| worth(flow, other.1, other.2).total_cmp(&worth(flow, one.1, one.2)));
    let dropped = ranked.iter().take_while(|release| release.2 == Eviction::Drop).count();
    let encoded = ranked.len() - dropped;
    let mut counts = PARTS.map(|part| (encoded as f64 * part).ceil() as usize).to_vec();
    counts.retain(|&count| count > 0);
    counts.dedup();
    let part = |count: usize| {
        let mut releases = ranked[..dropped + count].to_vec();
        releases.sort_by_key(|&(op, gap, _)| (op, gap));
        Plan { releases, ..plan.clone() }
    };
    counts.into_iter().map(part).collect()
}

/// Bytes that are saved times how long, for the predicted time that it takes.
fn worth(flow: &Dataflow, gap: usize, how: Eviction) -> f64 {
    let Eviction::Encode(encoding) = how else { return f64::INFINITY };
    let Gap { value, from, until, .. } = flow.gaps[gap];
    let value = &flow.values[value];
    let count = value.origin.map_or(0, |origin| origin.view.shape().count());
    let kept_bytes = encoding.size_bytes(count);
    let until_ns = until.map_or(flow.end_ns(), |(op, _)| flow.begin_ns(op));
    let away_ns = until_ns.saturating_sub(flow.begin_ns(from));
    let passes = if encoding.is_read_as_it_is() { 1 } else { 2 };
    let cost_ns = passes * flow.stream_ns(value.size_bytes + kept_bytes);
    value.size_bytes.saturating_sub(kept_bytes) as f64 * away_ns as f64 / cost_ns.max(1) as f64
}

/// A schedule that also releases what a plan does.
fn with(schedule: &Schedule, plan: &Plan) -> Schedule {
    let algorithms = schedule.algorithms;
    let plan = Plan { algorithms, ..plan.clone() };
    Schedule { layout: None, ..schedule.clone() }.with(&plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::NewOp;
    use crate::op::{Counts, Dtype, Encoding, Op, Origin, Reads, Shape, Unary, View};

    #[test]
    fn what_saves_the_most_for_its_time_is_in_the_smallest_part() {
        let mut flow = Dataflow { memory_bytes_per_second: 1e9, overhead_ns: 1000, ..Dataflow::default() };
        // Large and small values in turn; the first waits for the longest.
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
        let mut plan = Plan::default();
        for &value in &values {
            plan.release(&flow, flow.values[value].gaps[0], Eviction::Encode(Encoding::Signs));
        }
        let parts = parts(&flow, &plan);
        let sizes: Vec<usize> = parts.iter().map(|plan| plan.releases.len()).collect();
        assert_eq!(sizes, [8, 6, 4, 2, 1]);
        let in_part = |part: usize| -> Vec<usize> {
            parts[part].releases.iter().map(|release| flow.gaps[release.1].value).collect()
        };
        assert_eq!(in_part(4), [values[0]]);
        assert_eq!(in_part(2), [0, 2, 4, 6].map(|at| values[at]), "large ones first");
    }
}
