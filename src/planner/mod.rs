//! Plans of whole iterations: made from what the program asked for, judged by running it through the pool on the simulation.
//!
//! - [`iteration`]: what is planned. [`dataflow`]: how policies see it. [`bookings`]: what is spent on the host. [`trial`]: a plan is tried.

mod bookings;
mod dataflow;
mod iteration;
mod trial;

use std::sync::Arc;

use crate::config::Settings;
use crate::engine::Props;
use crate::engine::sim::{Profile, Workspace};
use crate::policy::{Limits, Policy, Schedule, Weighed};
use crate::pool::Log;
use bookings::Timeline;
use iteration::Iteration;
use trial::Trial;

/// Powers that are tried: of the time since the last use, of that until the next.
const WEIGHTS: [Weighed; 7] = [
    Weighed { idle: 0.0, until_next: 0.5 },
    Weighed { idle: 0.5, until_next: 0.5 },
    Weighed { idle: 0.0, until_next: 0.25 },
    Weighed { idle: 0.0, until_next: 1.0 },
    Weighed { idle: 0.0, until_next: 2.0 },
    Weighed { idle: 1.0, until_next: 0.5 },
    Weighed { idle: 1.0, until_next: 0.0 },
];

/// The best schedule found for an iteration; `None` if nothing was found that fits.
pub fn plan(log: &Log, period: usize, props: &Props, settings: &Settings) -> Option<Schedule> {
    let iteration = Iteration::cut(log, period)?;
    let planner = Planner { profile: profile(props), settings, iteration };
    if settings.policy == Policy::Auto { planner.search() } else { planner.published() }
}

/// An iteration as policies see it.
#[cfg(test)]
pub fn dataflow(log: &Log, period: usize, props: &Props) -> Option<crate::liveness::Dataflow> {
    Some(Iteration::cut(log, period)?.dataflow(props))
}

/// A simulated device like the real one.
fn profile(props: &Props) -> Profile {
    Profile { key: props.name.clone(), props: props.clone(), workspace: Workspace::Gpu }
}

struct Planner<'a> {
    profile: Profile,
    settings: &'a Settings,
    iteration: Iteration,
}

/// Parts of the budget that the bookings of copies are to make the program fit, and how much longer than predicted copies
/// are taken to be: what is recomputed takes memory too.
const BOOKINGS: [(f64, f64); 5] = [(1.0, 1.0), (1.0, 1.1), (0.95, 1.0), (0.9, 1.0), (0.8, 1.0)];

impl Planner<'_> {
    /// The schedule of a policy that says itself what is to be done.
    fn published(&self) -> Option<Schedule> {
        let Settings { policy, ways, budget_bytes, .. } = *self.settings;
        let limits = Limits { budget_bytes, offload: ways.offload, recompute: ways.recompute };
        let flow = self.iteration.dataflow(&self.profile.props);
        let (ops, intervals) = (&self.iteration.ops, &self.iteration.intervals);
        let blank = || Schedule { ops: ops.clone(), intervals: intervals.clone(), ..Schedule::default() };
        let plans = policy.reactive(ways.offload).plan(&flow, limits);
        let mut schedules: Vec<Schedule> = plans.iter().map(|plan| blank().with(plan)).collect();
        if schedules.len() < 2 {
            return schedules.pop();
        }
        let mut best = None;
        schedules.into_iter().for_each(|schedule| self.attempt(&mut best, schedule));
        best.map(|(schedule, _)| Arc::unwrap_or_clone(schedule))
    }

    fn search(&self) -> Option<Schedule> {
        let blank = Schedule {
            ops: self.iteration.ops.clone(),
            intervals: self.iteration.intervals.clone(),
            rule: Some(WEIGHTS[0]),
            ..Schedule::default()
        };
        let mut best = None;
        self.attempt(&mut best, blank.clone());
        if self.settings.ways.offload {
            let timeline = Timeline::new(&self.iteration, &self.profile.props, self.settings.ways.recompute);
            for (part, stretch) in BOOKINGS {
                let mut schedule = blank.clone();
                timeline.book(&mut schedule, (self.settings.budget_bytes as f64 * part) as usize, stretch);
                self.attempt(&mut best, schedule);
            }
        }
        let booked = best.as_ref().map_or(blank, |(schedule, _)| (**schedule).clone());
        for &rule in &WEIGHTS[1..] {
            self.attempt(&mut best, Schedule { rule: Some(rule), ..booked.clone() });
        }
        let (schedule, Trial { mut decisions, .. }) = best?;
        decisions.sort_by_key(|&(op, ..)| op);
        Some(Schedule { evictions: decisions, ..Arc::unwrap_or_clone(schedule) })
    }

    /// Tries a schedule, and keeps it if it is the fastest so far.
    fn attempt(&self, best: &mut Option<(Arc<Schedule>, Trial)>, schedule: Schedule) {
        let schedule = Arc::new(schedule);
        if let Ok(trial) = trial::run(&self.iteration, &self.profile, self.settings, &schedule)
            && best.as_ref().is_none_or(|(_, best)| trial.step_ns < best.step_ns)
        {
            *best = Some((schedule, trial));
        }
    }
}
