//! The search for a schedule as a whole: in which order candidates are searched, placed and offered.

use std::sync::Arc;

use super::iteration::Iteration;
use super::problem::{Planner, TimedSchedule, scheduled};
use super::search::Search;
use super::trial::Trial;
use crate::config::{Placement, Policy, Settings};
use crate::engine::Props;
use crate::engine::sim::{Profile, Workspace};
use crate::policy;
use crate::schedule::{Eviction, IntervalId, RequestLog, Schedule};

/// If one run of the iteration is the work of more ops than this, the first schedule is final: each trial would take minutes.
const MAX_SEARCHED_OPS: usize = 500_000;
/// The first schedule is offered if an iteration without it takes more than so many times as long.
const CLEARLY_FASTER: f64 = 1.01;

/// What to plan.
pub struct PlanRequest<'a> {
    pub log: &'a RequestLog,
    /// How many ops an iteration has.
    pub period: usize,
    pub props: &'a Props,
    pub settings: &'a Settings,
    /// Schedules of earlier searches, for budgets that are not larger. Those of other iterations are ignored.
    pub known: &'a [Schedule],
    /// After the first schedule the planner sleeps so many times as long as it works, if the program runs on the same processor.
    pub throttle: u32,
}

/// Hands schedules for an iteration to `found`, each better than the one before, until `found` returns `false`. There are none if
/// nothing fits.
pub fn plan(request: &PlanRequest, mut found: impl FnMut(Schedule) -> bool) {
    let &PlanRequest { log, period, props, settings, known, throttle } = request;
    let Some(mut iteration) = Iteration::cut(log, period) else { return };
    iteration.assume_counts(&settings.sparsity, &settings.packed);
    if settings.methods.checkpoints_only {
        iteration.move_checkpoints_only(props);
    }
    if settings.methods.saves_host_memory && settings.methods.recompute {
        iteration.save_host_memory(props, settings.methods);
    }
    let settings = &settings.with_less(log.idle_bytes);
    // The simulated device has the properties of the real one.
    let profile = &Profile { key: props.name.clone(), props: props.clone(), workspace: Workspace::Gpu };
    let step_ops = iteration.ops.len();
    let planner = Planner { iteration: &iteration, profile, settings, step_ops, throttle };
    if settings.policy != Policy::Auto {
        planner.published().into_iter().for_each(|schedule| {
            found(schedule.made_with(props.link_bytes_per_second()));
        });
        return;
    }
    let known = renewed(known, &iteration, log.idle_bytes);
    planner.search(&known, |mut schedule| {
        if let Some(layout) = &mut schedule.layout {
            Arc::make_mut(layout).limit_bytes += log.idle_bytes;
        }
        found(schedule.made_with(props.link_bytes_per_second()))
    });
}

/// The schedules that are for an iteration, with its times. Storages that cannot leave are left out of their memory.
fn renewed(schedules: &[Schedule], iteration: &Iteration, idle_bytes: usize) -> Vec<Arc<Schedule>> {
    let is_for_it = |schedule: &&Schedule| {
        let same_ops = schedule.ops.iter().map(|op| op.context).eq(iteration.ops.iter().map(|op| op.context));
        let same_uses = schedule.intervals.iter().map(|interval| interval.next_ops);
        same_ops && same_uses.eq(iteration.intervals.iter().map(|interval| interval.next_ops))
    };
    let renew = |schedule: &Schedule| {
        let mut schedule = Schedule { ops: iteration.ops.clone(), ..schedule.clone() };
        if let Some(layout) = &mut schedule.layout {
            let layout = Arc::make_mut(layout);
            layout.limit_bytes = layout.limit_bytes.saturating_sub(idle_bytes);
        }
        Arc::new(schedule)
    };
    schedules.iter().filter(is_for_it).map(renew).collect()
}

impl Planner<'_> {
    /// Hands on schedules that are faster than none, each faster than the one before. What is known already is for no more memory.
    pub fn search(&self, known: &[Arc<Schedule>], mut found: impl FnMut(Schedule) -> bool) {
        let unthrottled = Planner { throttle: 0, ..*self };
        let mut first = Search::new(unthrottled);
        first.try_rule();
        let step_ops = first.step_ops().unwrap_or(self.step_ops);
        let rule = unthrottled.first_schedule(&first);
        if rule.clone().is_none_or(&mut found) && step_ops <= MAX_SEARCHED_OPS {
            Planner { step_ops, ..*self }.search_further(rule, known, found);
        }
    }

    /// Searches after a rule's schedule was offered: for the whole budget, then for ever smaller parts of it, as long as a
    /// schedule for such a part could be faster. In the whole budget, storages that leave no gaps in the search may not find
    /// room in real memory, and a schedule that needs less finds it.
    ///
    /// The search assumes unbounded addresses where addresses are planned, then chooses addresses for the blocks of its best
    /// schedules.
    ///
    /// Schedules that are known are followed as they are, if nothing faster is found, so that a larger budget is not slower.
    fn search_further(
        &self,
        rule: Option<Schedule>,
        known: &[Arc<Schedule>],
        mut found: impl FnMut(Schedule) -> bool,
    ) {
        let Settings { budget_bytes, placement, tunables, .. } = *self.settings;
        let unplanned_ns = if self.needs_a_schedule() { None } else { self.long_run_ns(None) };
        let unplanned_ns = unplanned_ns.map(|step_ns| self.weighted_ns(step_ns, false));
        let rule = rule.and_then(|schedule| self.timed(Arc::new(schedule)));
        let offered_ns = rule.map(|timed| timed.weighted_ns);
        let mut best_ns = unplanned_ns.into_iter().chain(offered_ns).min().unwrap_or(u64::MAX);
        for timed in known.iter().filter_map(|schedule| self.timed(schedule.clone())) {
            if timed.weighted_ns < best_ns {
                best_ns = timed.weighted_ns;
                if !found(timed.schedule) {
                    return;
                }
            }
        }
        let has_addresses = placement == Placement::SmartPool;
        let encodings = self.encodings();
        for rung in 0..tunables.rungs {
            let less_bytes = (budget_bytes as f64 * tunables.rung_height * rung as f64) as usize;
            let settings =
                Settings { unbounded_addresses: has_addresses, ..self.settings.with_less(less_bytes) };
            let mut search = Search::new(Planner { settings: &settings, ..*self });
            search.try_rule();
            search.try_assignments();
            search.try_assignments_of_tiers();
            search.encode(&encodings);
            search.improve();
            search.try_known(known);
            let could_be_faster = search.fastest().next().is_some_and(|(_, trial)| trial.step_ns < best_ns);
            if rung > 0 && !could_be_faster {
                return;
            }
            let timed = self.placed_or_fitted(&search);
            let is_met = search.is_met_by(timed.as_ref());
            if let Some(timed) = timed.filter(|timed| timed.weighted_ns < best_ns) {
                best_ns = timed.weighted_ns;
                if !found(timed.schedule) {
                    return;
                }
            }
            if is_met || !has_addresses {
                return;
            }
        }
    }

    /// The schedule of one rule, if it is clearly faster than none. It is not measured in the long run, so that the program has a
    /// plan soon.
    fn first_schedule(&self, search: &Search) -> Option<Schedule> {
        let (schedule, trial) = search.fastest().next()?;
        let is_faster = |none: Trial| trial.step_ns as f64 * CLEARLY_FASTER < none.step_ns as f64;
        (self.needs_a_schedule() || self.run(None).is_none_or(is_faster)).then(|| scheduled(schedule, trial))
    }

    /// Whether a program without a schedule does what the settings forbid.
    fn needs_a_schedule(&self) -> bool {
        self.settings.methods.checkpoints_only
    }

    /// The best schedule of a search with unbounded addresses, on real memory: with planned addresses or by best fit, whichever is
    /// faster. A schedule that is slower than another with unbounded addresses may be faster there.
    fn placed_or_fitted(&self, search: &Search) -> Option<TimedSchedule> {
        let mut best: Option<TimedSchedule> = None;
        for (schedule, trial) in search.fastest() {
            let is_met =
                |by: Option<&TimedSchedule>| by.is_some_and(|by| self.is_as_fast(by.step_ns, trial.step_ns));
            if is_met(best.as_ref()) {
                break;
            }
            let placed = self.with_addresses(schedule, trial);
            let fitted =
                if is_met(placed.as_ref()) { None } else { self.timed(Arc::new(scheduled(schedule, trial))) };
            best = TimedSchedule::fastest(best.into_iter().chain(placed).chain(fitted));
        }
        best
    }

    /// The intervals in which values can wait in fewer bits without loss, and how they leave.
    fn encodings(&self) -> Vec<(IntervalId, Eviction)> {
        let flow = self.iteration.dataflow(&self.profile.props);
        let found = policy::lossless(&flow, self.limits());
        found.into_iter().map(|(interval, method)| (IntervalId(interval as u32), method)).collect()
    }

    /// The schedule of a published policy. If the policy states several plans, this is the fastest.
    fn published(&self) -> Option<Schedule> {
        let flow = self.iteration.dataflow(&self.profile.props);
        let plans = policy::rule(self.settings.policy, self.settings.gist_format).plan(&flow, self.limits());
        let mut schedules: Vec<Schedule> =
            plans.iter().map(|plan| self.iteration.schedule().with(plan)).collect();
        if schedules.len() < 2 {
            return schedules.pop();
        }
        let timed = schedules.into_iter().map(Arc::new);
        let timed = timed.filter_map(|schedule| Some((self.run(Some(&schedule))?.step_ns, schedule)));
        timed.min_by_key(|&(step_ns, _)| step_ns).map(|(_, schedule)| Arc::unwrap_or_clone(schedule))
    }
}
