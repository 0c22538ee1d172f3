//! Plans of whole iterations: made from what the program asked for, judged by running it through the pool on the simulation.
//!
//! - [`iteration`]: what is planned. [`dataflow`]: how policies see it.
//! - [`search`]: what is tried. [`bookings`]: what is spent on the host. [`trial`]: a plan is tried.

mod bookings;
mod dataflow;
mod iteration;
mod search;
mod trial;

use std::sync::Arc;

use crate::config::Settings;
use crate::engine::Props;
use crate::engine::sim::{Profile, Workspace};
use crate::policy::{Limits, Policy, Schedule};
use crate::pool::Log;
use iteration::Iteration;
use search::Search;

/// Hands on schedules for an iteration, each better than the one before, as long as `found` asks for more; none if nothing
/// fits.
pub fn plan(
    log: &Log,
    period: usize,
    props: &Props,
    settings: &Settings,
    mut found: impl FnMut(Schedule) -> bool,
) {
    let Some(iteration) = Iteration::cut(log, period) else { return };
    // A simulated device like the real one.
    let profile = Profile { key: props.name.clone(), props: props.clone(), workspace: Workspace::Gpu };
    if settings.policy != Policy::Auto {
        published(&iteration, &profile, settings).into_iter().for_each(|schedule| {
            found(schedule);
        });
        return;
    }
    let mut search = Search::new(&iteration, &profile, settings);
    search.try_rules();
    if search.best().is_none_or(&mut found)
        && search.improve()
        && let Some(schedule) = search.best()
    {
        found(schedule);
    }
}

/// The schedule of a policy that says itself what is to be done; the fastest, if it says that of several.
fn published(iteration: &Iteration, profile: &Profile, settings: &Settings) -> Option<Schedule> {
    let &Settings { policy, ways, budget_bytes, .. } = settings;
    let limits = Limits { budget_bytes, offload: ways.offload, recompute: ways.recompute };
    let plans = policy.reactive(ways.offload).plan(&iteration.dataflow(&profile.props), limits);
    let mut schedules: Vec<Schedule> = plans.iter().map(|plan| iteration.schedule().with(plan)).collect();
    if schedules.len() < 2 {
        return schedules.pop();
    }
    let timed = schedules.into_iter().map(Arc::new).filter_map(|schedule| {
        let trial = trial::run(iteration, profile, settings, Some(&schedule)).ok()?;
        Some((trial.step_ns, schedule))
    });
    timed.min_by_key(|&(step_ns, _)| step_ns).map(|(_, schedule)| Arc::unwrap_or_clone(schedule))
}

/// An iteration as policies see it.
#[cfg(test)]
pub fn dataflow(log: &Log, period: usize, props: &Props) -> Option<crate::liveness::Dataflow> {
    Some(Iteration::cut(log, period)?.dataflow(props))
}
