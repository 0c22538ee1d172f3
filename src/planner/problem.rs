//! The iteration with the device and the settings that it is planned for, and how long a schedule takes there.

use std::sync::Arc;
use std::time::Instant;

use super::iteration::Iteration;
use super::trial::{self, Trial, TrialLength};
use crate::config::{Exactness, Settings};
use crate::engine::sim::Profile;
use crate::policy::Limits;
use crate::schedule::{
    Eviction, EvictionOrder, MAX_PREFETCH_DISTANCE, PrefetchDistance, Schedule, WeightedRule,
};

/// The rule of schedules: only the next use counts, which a plan knows.
const RULE: WeightedRule = WeightedRule { idle: 0.0, until_next: 0.5 };

/// How early storages are fetched that have no reservation: four times as long before their use as a copy takes.
const PREFETCH_DISTANCE: PrefetchDistance = PrefetchDistance { parts: MAX_PREFETCH_DISTANCE / 4 };

/// A trial that takes at most so many times as long as another counts as equally fast.
const AS_FAST: f64 = 1.0005;

/// The most ops that run to measure the long-run time of an iteration.
const MAX_LONG_RUN_OPS: usize = 800_000;

/// A schedule with the time of an iteration in the long run.
#[derive(Clone)]
pub struct TimedSchedule {
    pub schedule: Schedule,
    pub step_ns: u64,
    /// The time by which schedules are compared.
    pub weighted_ns: u64,
}

impl TimedSchedule {
    pub fn fastest(of: impl IntoIterator<Item = TimedSchedule>) -> Option<TimedSchedule> {
        of.into_iter().min_by_key(|timed| timed.weighted_ns)
    }
}

/// An iteration, and what it is planned for.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    pub iteration: &'a Iteration,
    pub profile: &'a Profile,
    pub settings: &'a Settings,
    /// The work of running the iteration once, in ops: see [`Trial::step_ops`].
    pub step_ops: usize,
    /// The planner sleeps so many times as long as it worked.
    pub throttle: u32,
}

impl Planner<'_> {
    pub fn run(&self, schedule: Option<&Arc<Schedule>>) -> Option<Trial> {
        self.run_for(schedule, TrialLength::default())
    }

    /// The time of an iteration in the long run.
    pub fn long_run_ns(&self, schedule: Option<&Arc<Schedule>>) -> Option<u64> {
        // A program that an oracle knows follows a plan from its first op on.
        let unplanned = if self.settings.oracle.is_some() { 0 } else { trial::UNPLANNED };
        let iterations = MAX_LONG_RUN_OPS / self.step_ops.max(1);
        let iterations = iterations.clamp(trial::ITERATIONS, trial::MANY_ITERATIONS);
        self.run_for(schedule, TrialLength { unplanned, iterations }).map(|trial| trial.step_ns)
    }

    pub fn run_for(&self, schedule: Option<&Arc<Schedule>>, length: TrialLength) -> Option<Trial> {
        self.throttled(|| trial::run(self.iteration, self.profile, self.settings, schedule, length).ok())
    }

    /// How many trials run in so many ops.
    pub fn trials_in(&self, ops: usize) -> usize {
        ops / (trial::ITERATIONS * self.step_ops.max(1))
    }

    /// Does some work, then sleeps as the throttle says.
    pub fn throttled<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let made = work();
        if self.throttle > 0 {
            std::thread::sleep(begun.elapsed() * self.throttle);
        }
        made
    }

    /// Measures a schedule in the long run.
    pub fn timed(&self, schedule: Arc<Schedule>) -> Option<TimedSchedule> {
        let step_ns = self.long_run_ns(Some(&schedule))?;
        let weighted_ns = self.weighted_ns(step_ns, schedule.layout.is_some());
        Some(TimedSchedule { schedule: Arc::unwrap_or_clone(schedule), step_ns, weighted_ns })
    }

    /// Whether a time is at most about as long as another.
    pub fn is_as_fast(&self, step_ns: u64, other_ns: u64) -> bool {
        step_ns as f64 <= other_ns as f64 * AS_FAST
    }

    /// The time by which a schedule is compared with others.
    pub fn weighted_ns(&self, step_ns: u64, has_addresses: bool) -> u64 {
        let factor = if has_addresses { 1.0 } else { self.settings.tunables.address_preference };
        (step_ns as f64 * factor) as u64
    }

    /// A schedule that decides nothing by itself but that storages which the iteration before left, and which nothing uses, leave
    /// as the iteration begins. Its rule evicts what memory is short for.
    pub fn schedule(&self) -> Schedule {
        let prefetch_distance = PREFETCH_DISTANCE;
        let mut schedule = Schedule { rule: Some(RULE), prefetch_distance, ..self.iteration.schedule() };
        let offload = self.settings.methods.offload;
        if self.settings.methods.recompute {
            for interval in self.iteration.dead_but_held() {
                let interval = &mut schedule.intervals[interval.0 as usize];
                (interval.method, interval.order) = (Some(Eviction::Drop), EvictionOrder::First);
            }
        }
        for interval in self.iteration.left_over() {
            // The copy is made when the storage is, in the second half of an iteration, when the lane has little else to do. A
            // storage at the end of a long chain could not be dropped any more.
            let left = &mut schedule.intervals[interval.0 as usize];
            left.copied = offload && left.may_move;
            let method = if left.copied { Eviction::Offload } else { Eviction::Drop };
            schedule.releases.push((0, interval, method));
        }
        schedule
    }

    pub fn limits(&self) -> Limits {
        let &Settings { methods, budget_bytes, exactness, .. } = self.settings;
        let algorithms = exactness == Exactness::Fast;
        Limits { budget_bytes, offload: methods.offload, recompute: methods.recompute, algorithms }
    }
}

/// A schedule that repeats the decisions of a trial.
pub fn scheduled(tried: &Schedule, trial: &Trial) -> Schedule {
    let mut evictions = trial.decisions.clone();
    evictions.retain(|decision| !tried.releases.contains(decision));
    evictions.sort_by_key(|&(op, ..)| op);
    Schedule { evictions, ..tried.clone() }
}
