//! The search for a schedule as a whole: in which order candidates are searched, placed and offered.

use std::sync::Arc;

use super::iteration::Iteration;
use super::problem::{Planner, TimedSchedule};
use super::search::{AssignmentCache, Search};
use super::trial::Trial;
use crate::config::{Placement, Policy, Settings};
use crate::engine::Props;
use crate::engine::sim::{Profile, Workspace};
use crate::policy;
use crate::schedule::{Eviction, RequestLog, Schedule};

/// The slack that a search is repeated with: it plans for this much less memory, as a fraction of the budget.
const MARGINS: [f64; 1] = [0.01];
/// The same where storages are copied. It is more, since memory is not defragmented there.
const MARGINS_WITH_COPIES: [f64; 3] = [0.01, 0.02, 0.04];
/// How many whole hundredths of the iteration's need are tried as budgets too: the next smaller ones.
const HUNDREDTHS: usize = 2;
/// So many margins are tried unless a schedule costs nothing, even if addresses do not make the program slower. A search may
/// find a better schedule for less memory.
const MARGINS_ALWAYS_TRIED: usize = HUNDREDTHS + 2;
/// Margins are tried for iterations of at most so many ops, since each repeats the whole search.
const MAX_MARGIN_OPS: usize = 10_000;
/// The same where storages are copied.
const MAX_MARGIN_OPS_WITH_COPIES: usize = 3_000;

/// If one run of the iteration is the work of more ops than this, the first schedule is final: each trial would take minutes.
const MAX_SEARCHED_OPS: usize = 500_000;
/// Schedules without addresses are searched too, where addresses may be planned, for iterations of at most so many ops.
const MAX_REFITTED_OPS: usize = 100_000;

/// The first schedule is offered if an iteration without it takes more than so many times as long.
const CLEARLY_FASTER: f64 = 1.01;

/// What to plan.
pub struct PlanRequest<'a> {
    pub log: &'a RequestLog,
    /// How many ops an iteration has.
    pub period: usize,
    pub props: &'a Props,
    pub settings: &'a Settings,
    /// After the first schedule the planner sleeps so many times as long as it works, if the program runs on the same processor.
    pub throttle: u32,
}

/// Hands schedules for an iteration to `found`, each better than the one before, until `found` returns `false`. There are none if
/// nothing fits.
pub fn plan(request: &PlanRequest, mut found: impl FnMut(Schedule) -> bool) {
    let &PlanRequest { log, period, props, settings, throttle } = request;
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
            found(schedule.made_with(props.link_bytes_per_second));
        });
        return;
    }
    planner.search(|mut schedule| {
        if let Some(layout) = &mut schedule.layout {
            Arc::make_mut(layout).limit_bytes += log.idle_bytes;
        }
        found(schedule.made_with(props.link_bytes_per_second))
    });
}

impl Planner<'_> {
    /// Hands on schedules that are faster than none, each faster than the one before.
    pub fn search(&self, mut found: impl FnMut(Schedule) -> bool) {
        let chosen = AssignmentCache::new();
        let unthrottled = Planner { throttle: 0, ..*self };
        let mut first = Search::new(unthrottled, &chosen);
        first.try_one();
        let step_ops = first.step_ops().unwrap_or(self.step_ops);
        if unthrottled.first_schedule(&first).is_none_or(&mut found) && step_ops <= MAX_SEARCHED_OPS {
            Planner { step_ops, ..*self }.search_further(&chosen, found);
        }
    }

    /// Searches after the first schedule was offered.
    ///
    /// The search first assumes unbounded addresses, then chooses addresses for the blocks of the best schedules. It is repeated for
    /// a little less memory, and for still less if the addresses exceed the budget or slow the program down. In that case schedules
    /// are searched without planned addresses too.
    fn search_further(&self, chosen: &AssignmentCache, mut found: impl FnMut(Schedule) -> bool) {
        let unthrottled = Planner { throttle: 0, ..*self };
        let unplanned_ns = if self.needs_a_schedule() { None } else { self.long_run_ns(None) };
        let mut best_ns = unplanned_ns.map_or(u64::MAX, |step_ns| self.weighted_ns(step_ns, false));
        let mut best = None;
        let mut offer = |timed: Option<TimedSchedule>, best: &mut Option<Arc<Schedule>>| {
            timed.filter(|timed| timed.weighted_ns < best_ns).is_none_or(|timed| {
                best_ns = timed.weighted_ns;
                *best = Some(Arc::new(timed.schedule.clone()));
                found(timed.schedule)
            })
        };
        let unbounded = Settings { unbounded_addresses: true, ..self.settings.clone() };
        let has_addresses = self.settings.placement == Placement::SmartPool;
        let mut search = Search::new(Planner { settings: &unbounded, ..unthrottled }, chosen);
        let mut is_met = false;
        if has_addresses {
            search.try_rules();
            if !offer(unthrottled.fitted(&search), &mut best) {
                return;
            }
            search.set_throttle(self.throttle);
            search.try_assignments();
            let mut placed = self.placed_or_fitted(&search);
            if !offer(placed.clone(), &mut best) {
                return;
            }
            // Among equally fast schedules, another may have addresses that fit better.
            if search.may_improve() && (search.improve() || !search.is_met_by(placed.as_ref())) {
                let improved = self.placed_or_fitted(&search);
                placed = TimedSchedule::fastest(placed.into_iter().chain(improved));
                if !offer(placed.clone(), &mut best) {
                    return;
                }
            }
            for (tried, margin_bytes) in self.margins_bytes(search.need_bytes()).into_iter().enumerate() {
                let is_enough = tried >= MARGINS_ALWAYS_TRIED || search.costs_nothing();
                if is_enough && search.is_met_by(placed.as_ref()) {
                    break;
                }
                let with_margin = self.placed_with_margin(margin_bytes);
                placed = TimedSchedule::fastest(placed.into_iter().chain(with_margin));
                if !offer(placed.clone(), &mut best) {
                    return;
                }
            }
            is_met = search.is_met_by(placed.as_ref());
        }
        if !is_met && (!has_addresses || self.iteration.ops.len() <= MAX_REFITTED_OPS) {
            let mut fitted = Search::new(*self, chosen);
            fitted.try_rules();
            fitted.try_assignments();
            if !offer(self.fitted(&fitted), &mut best)
                || fitted.improve() && !offer(self.fitted(&fitted), &mut best)
            {
                return;
            }
            if !has_addresses {
                search = fitted;
            }
        }
        offer(self.encoded(&mut search, best.as_ref()), &mut best);
    }

    /// The schedule of one rule, if it is clearly faster than none. It is not measured in the long run, so that the program has a
    /// plan soon.
    fn first_schedule(&self, search: &Search) -> Option<Schedule> {
        let (schedule, step_ns) = search.best()?;
        let is_faster = |none: Trial| step_ns as f64 * CLEARLY_FASTER < none.step_ns as f64;
        (self.needs_a_schedule() || self.run(None).is_none_or(is_faster)).then_some(schedule)
    }

    /// Whether a program without a schedule does what the settings forbid.
    fn needs_a_schedule(&self) -> bool {
        self.settings.methods.checkpoints_only
    }

    /// The best schedule of a search with unbounded addresses, on real memory: with planned addresses or by best fit, whichever is
    /// faster.
    fn placed_or_fitted(&self, search: &Search) -> Option<TimedSchedule> {
        let placed = self.placed(search);
        if search.is_met_by(placed.as_ref()) {
            return placed;
        }
        TimedSchedule::fastest(placed.into_iter().chain(self.fitted(search)))
    }

    /// The best schedule of a search with planned addresses. A schedule that is slower than another with unbounded addresses may be
    /// faster with planned ones.
    fn placed(&self, search: &Search) -> Option<TimedSchedule> {
        let mut best: Option<TimedSchedule> = None;
        for &(schedule, trial) in search.affordable(&search.tried()) {
            if best.as_ref().is_some_and(|best| self.is_as_fast(best.step_ns, trial.step_ns)) {
                break;
            }
            best = TimedSchedule::fastest(best.into_iter().chain(self.with_addresses(schedule, trial)));
        }
        best
    }

    /// The margins that the search is repeated with. Where storages are copied, the first of them leave whole hundredths of
    /// `need_bytes`, so that similar budgets find each other's schedules.
    pub fn margins_bytes(&self, need_bytes: usize) -> Vec<usize> {
        let Settings { methods, budget_bytes, .. } = *self.settings;
        let (max_ops, hundredths, margins) = match methods.offload {
            true => (MAX_MARGIN_OPS_WITH_COPIES, HUNDREDTHS, &MARGINS_WITH_COPIES[..]),
            false => (MAX_MARGIN_OPS, 0, &MARGINS[..]),
        };
        if self.iteration.ops.len() >= max_ops {
            return Vec::new();
        }
        let hundredth_bytes = (need_bytes / 100).max(1);
        let last_bytes = budget_bytes.saturating_sub(1) % hundredth_bytes + 1;
        let hundredths = (0..hundredths).map(|more| last_bytes + more * hundredth_bytes);
        let parts = margins.iter().map(|part| (budget_bytes as f64 * part) as usize);
        hundredths.chain(parts).filter(|&margin_bytes| margin_bytes < budget_bytes).collect()
    }

    /// Searches for less memory, and plans addresses in all of it. Where the addresses of a full memory exceed the budget, a rule
    /// evicts more storages; here the search decides that with the whole iteration in view.
    fn placed_with_margin(&self, margin_bytes: usize) -> Option<TimedSchedule> {
        let settings = Settings { unbounded_addresses: true, ..self.settings.with_less(margin_bytes) };
        let chosen = AssignmentCache::new();
        let mut search = Search::new(Planner { settings: &settings, ..*self }, &chosen);
        search.try_rules();
        search.try_assignments();
        search.improve();
        self.placed(&search)
    }

    /// The fastest schedule of a search, placed by best fit.
    fn fitted(&self, search: &Search) -> Option<TimedSchedule> {
        self.timed(Arc::new(search.best()?.0))
    }

    /// The best schedule that encodes values; also with planned addresses, if the search knows the blocks.
    fn encoded(&self, search: &mut Search, found: Option<&Arc<Schedule>>) -> Option<TimedSchedule> {
        let ranked = self.encodings();
        // If every value that helps is dropped, the search has tried these drops already.
        if ranked.iter().all(|(_, method)| *method == Eviction::Drop) {
            return None;
        }
        let contenders = search.encode(&ranked, found);
        let placed = if contenders.is_empty() { None } else { self.placed(search) };
        let fitted = contenders.into_iter().filter_map(|schedule| self.timed(schedule));
        TimedSchedule::fastest(placed.into_iter().chain(fitted))
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
