//! Plans of whole iterations: made from what the program asked for, judged by running it through the pool on the simulation.
//!
//! - [`iteration`]: what is planned. [`bookings`]: what is spent on the host. [`trial`]: a plan is tried.
//! - [`addresses`]: where its blocks are. [`smartpool`]: how these are chosen.

mod addresses;
mod bookings;
mod iteration;
mod smartpool;
mod trial;

use std::sync::Arc;

use crate::config::{Placement, Settings};
use crate::engine::Props;
use crate::engine::sim::{Profile, Workspace};
use crate::policy::{Schedule, Weighed};
use crate::pool::Log;
use bookings::Timeline;
use iteration::Iteration;
pub use smartpool::{Lifetime, peak_bytes, place};
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
    let settings = &settings.with_less(log.idle_bytes);
    let planner = Planner { profile: &profile(props), settings, iteration: &iteration };
    let mut schedule = match settings.placement {
        Placement::SmartPool => planner.search_addresses()?,
        Placement::BestFit => planner.search().map(|(schedule, trial)| scheduled(&schedule, trial))?,
    };
    if let Some(layout) = &mut schedule.layout {
        Arc::make_mut(layout).limit_bytes += log.idle_bytes;
    }
    Some(schedule)
}

/// A schedule of what was decided when another was tried.
fn scheduled(tried: &Schedule, trial: Trial) -> Schedule {
    let mut evictions = trial.decisions;
    evictions.sort_by_key(|&(op, ..)| op);
    Schedule { evictions, ..tried.clone() }
}

/// A simulated device like the real one.
fn profile(props: &Props) -> Profile {
    Profile { key: props.name.clone(), props: props.clone(), workspace: Workspace::Gpu }
}

#[derive(Clone, Copy)]
struct Planner<'a> {
    profile: &'a Profile,
    settings: &'a Settings,
    iteration: &'a Iteration,
}

/// Parts of the budget that the bookings of copies are to make the program fit, and how much longer than predicted copies
/// are taken to be: what is recomputed takes memory too.
const BOOKINGS: [(f64, f64); 5] = [(1.0, 1.0), (1.0, 1.1), (0.95, 1.0), (0.9, 1.0), (0.8, 1.0)];

impl Planner<'_> {
    fn search(&self) -> Option<(Arc<Schedule>, Trial)> {
        let blank = Schedule {
            ops: self.iteration.ops.clone(),
            intervals: self.iteration.intervals.clone(),
            rule: WEIGHTS[0],
            ..Schedule::default()
        };
        let mut best = None;
        self.attempt(&mut best, blank.clone());
        if self.settings.ways.offload {
            let timeline = Timeline::new(self.iteration, &self.profile.props, self.settings.ways.recompute);
            for (part, stretch) in BOOKINGS {
                let mut schedule = blank.clone();
                timeline.book(&mut schedule, (self.settings.budget_bytes as f64 * part) as usize, stretch);
                self.attempt(&mut best, schedule);
            }
        }
        let booked = best.as_ref().map_or(blank, |(schedule, _)| (**schedule).clone());
        for &rule in &WEIGHTS[1..] {
            self.attempt(&mut best, Schedule { rule, ..booked.clone() });
        }
        best
    }

    /// Tries a schedule, and keeps it if it is the fastest so far.
    fn attempt(&self, best: &mut Option<(Arc<Schedule>, Trial)>, schedule: Schedule) {
        let schedule = Arc::new(schedule);
        if let Ok(trial) = trial::run(self.iteration, self.profile, self.settings, &schedule)
            && best.as_ref().is_none_or(|(_, best)| trial.step_ns < best.step_ns)
        {
            *best = Some((schedule, trial));
        }
    }
}
