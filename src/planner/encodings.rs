//! Encodings beside what else a schedule does: tried like all else, on the simulation.

use std::sync::Arc;

use super::Planner;
use crate::policy::{Eviction, Limits, Plan, Policy, Schedule};

impl Planner<'_> {
    /// The fastest of `best` and of no schedule with what Gist encodes without loss, if that is faster than without.
    ///
    /// All is encoded or nothing. What then needs not leave stays, since evictions are made when memory is short; but addresses
    /// that were planned for other blocks are of no use.
    pub fn encoded(&self, best: Option<&Arc<Schedule>>, limits: Limits) -> Option<Schedule> {
        let flow = self.iteration.dataflow(&self.profile.props);
        let gist = Policy::GistLossless.reactive(limits.offload, self.settings.gist_format);
        let plan = gist.plan(&flow, limits).pop()?;
        let encodes = plan.releases.iter().any(|(_, _, how)| matches!(how, Eviction::Encode(_)));
        if !encodes {
            return None;
        }
        let plain = Arc::new(self.iteration.schedule());
        let tried = best.into_iter().chain([&plain]).map(|schedule| Arc::new(with(schedule, &plan)));
        let timed = tried.filter_map(|schedule| Some((self.run(Some(&schedule))?.step_ns, schedule)));
        let (step_ns, schedule) = timed.min_by_key(|&(step_ns, _)| step_ns)?;
        let without_ns = self.run(best).map_or(u64::MAX, |trial| trial.step_ns);
        (step_ns < without_ns).then(|| Arc::unwrap_or_clone(schedule))
    }
}

/// A schedule that also releases what a plan does.
fn with(schedule: &Schedule, plan: &Plan) -> Schedule {
    let algorithms = schedule.algorithms;
    let plan = Plan { algorithms, ..plan.clone() };
    Schedule { layout: None, ..schedule.clone() }.with(&plan)
}
