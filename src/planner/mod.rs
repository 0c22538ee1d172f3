//! Plans of whole iterations: made from what the program asked for, judged by running it through the pool on the simulation.
//!
//! - [`iteration`]: what is planned. [`dataflow`]: how policies see it.
//! - [`search`]: what is tried. [`kinds`]: what is changed together. [`trial`]: a plan is tried.
//! - [`bookings`]: what is spent on the host. [`lanes`]: when it is copied.
//! - [`choices`]: what to keep, move and recompute. [`evaluation`]: what that comes to, predicted. [`relaxation`]: by prices.
//!   [`annealing`]: bettered.
//! - [`encodings`]: what waits in fewer bits.
//! - [`addresses`]: where its blocks are. [`smartpool`], [`pages`]: how these are chosen. [`ejection`]: bettered.

mod addresses;
mod annealing;
mod bookings;
mod choices;
mod dataflow;
mod ejection;
mod encodings;
mod evaluation;
mod iteration;
mod kinds;
mod lanes;
mod pages;
mod relaxation;
mod search;
mod smartpool;
mod trial;

use std::sync::Arc;
use std::time::Instant;

use crate::config::{Exactness, Placement, Policy, Settings};
use crate::engine::Props;
use crate::engine::sim::{Profile, Workspace};
pub use crate::policy::LayerCounts;
use crate::policy::{self, Limits};
use crate::schedule::{Eviction, Log, Schedule, Turn};
use iteration::Iteration;
#[cfg(test)]
use iteration::Step;
use search::{Chosen, Search};
pub use smartpool::{Lifetime, peak_bytes, place};
use trial::Trial;

/// Hands on schedules for an iteration, each better than the one before, as long as `found` asks for more; none if nothing
/// fits. As soon as there is one, `rests` so many times as long as it works: for a program on the same processor.
pub fn plan(
    log: &Log,
    period: usize,
    props: &Props,
    settings: &Settings,
    rests: u32,
    mut found: impl FnMut(Schedule) -> bool,
) {
    let Some(mut iteration) = Iteration::cut(log, period) else { return };
    iteration.suppose(&settings.sparsity, &settings.packed);
    if settings.ways.checkpoints_only {
        iteration.move_checkpoints_only(props);
    }
    if settings.ways.spares_host && settings.ways.recompute {
        iteration.spare_host(props, settings.ways);
    }
    let settings = &settings.with_less(log.idle_bytes);
    // A simulated device like the real one.
    let profile = &Profile { key: props.name.clone(), props: props.clone(), workspace: Workspace::Gpu };
    let step_ops = iteration.ops.len();
    let planner = Planner { iteration: &iteration, profile, settings, step_ops, rests };
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

/// How many times as long a schedule with addresses may take to be preferred to one without. With addresses the program goes as the
/// trial did; by best fit each iteration leaves memory in other pieces for the next, and few go as any trial did.
const ABOUT_AS_FAST: f64 = 1.002;
/// The same where storages may be copied: what is free then also depends on which copies are done.
const ABOUT_AS_FAST_WITH_COPIES: f64 = 1.01;

/// How many times as long a trial may take to be as fast as another, and where storages may be copied.
const AS_FAST: f64 = 1.0005;
const AS_FAST_WITH_COPIES: f64 = 1.0002;

/// The parts of memory that are left as room: more where storages are copied, since nothing is moved together there.
const ROOMS: [f64; 1] = [0.01];
const ROOMS_WITH_COPIES: [f64; 3] = [0.01, 0.02, 0.04];
/// How many whole hundredths of what an iteration needs are tried besides, the next smaller ones.
const HUNDREDTHS: usize = 2;
/// How many of these are tried in any case, unless a schedule costs nothing, and not only where it takes longer with addresses: a search is
/// as lucky with less memory at times as with more.
const ROOMS_ALWAYS_TRIED: usize = HUNDREDTHS + 2;
/// Ops of iterations that room is tried for, at the most, and where storages are copied: all of the search is done again.
const MOST_ROOMY_OPS: usize = 10_000;
const MOST_ROOMY_OPS_WITH_COPIES: usize = 3_000;

/// Ops that it takes to run an iteration once, at the most, if schedules are searched for that are better than a first one: where it takes
/// more, each trial takes minutes.
const MOST_SEARCHED_OPS: usize = 500_000;

/// Ops of iterations that what best fit makes of schedules is searched for where there are addresses, at the most.
const MOST_REFITTED_OPS: usize = 100_000;
/// Ops that are run to tell what an iteration takes in the long run, at the most.
const MOST_SETTLING_OPS: usize = 800_000;

/// How many times as long it takes without the first plan.
const CLEARLY_FASTER: f64 = 1.01;

/// A schedule, and the time of an iteration in the long run.
#[derive(Clone)]
struct Settled {
    schedule: Schedule,
    step_ns: u64,
    /// What it is compared by.
    weighed_ns: u64,
}

impl Settled {
    fn better(of: impl IntoIterator<Item = Settled>) -> Option<Settled> {
        of.into_iter().min_by_key(|settled| settled.weighed_ns)
    }
}

/// An iteration, and what it is planned for.
#[derive(Clone, Copy)]
struct Planner<'a> {
    iteration: &'a Iteration,
    profile: &'a Profile,
    settings: &'a Settings,
    /// What it takes to run the iteration once, in ops: see [`Trial::step_ops`].
    step_ops: usize,
    /// For how many times as long as it worked it rests.
    rests: u32,
}

impl Planner<'_> {
    fn run(&self, schedule: Option<&Arc<Schedule>>) -> Option<Trial> {
        self.run_often(schedule, 0, trial::ITERATIONS)
    }

    /// The time of an iteration in the long run.
    fn settled_ns(&self, schedule: Option<&Arc<Schedule>>) -> Option<u64> {
        // What knows the program follows a plan from its first op on.
        let unplanned = if self.settings.foresight.is_some() { 0 } else { trial::UNPLANNED };
        let iterations = MOST_SETTLING_OPS / self.step_ops.max(1);
        let iterations = iterations.clamp(trial::ITERATIONS, trial::MANY_ITERATIONS);
        self.run_often(schedule, unplanned, iterations).map(|trial| trial.step_ns)
    }

    fn run_often(
        &self,
        schedule: Option<&Arc<Schedule>>,
        unplanned: usize,
        iterations: usize,
    ) -> Option<Trial> {
        self.at_leisure(|| {
            trial::run(self.iteration, self.profile, self.settings, schedule, unplanned, iterations).ok()
        })
    }

    /// How many trials there are in so many ops.
    fn trials_in(&self, ops: usize) -> usize {
        ops / (trial::ITERATIONS * self.step_ops.max(1))
    }

    /// Works, then rests.
    fn at_leisure<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let made = work();
        if self.rests > 0 {
            std::thread::sleep(begun.elapsed() * self.rests);
        }
        made
    }

    /// Hands on schedules that are better than none, each better than the one before.
    fn search(&self, mut found: impl FnMut(Schedule) -> bool) {
        let chosen = Chosen::new();
        let hurried = Planner { rests: 0, ..*self };
        let mut first = Search::new(hurried, &chosen);
        first.try_one();
        let step_ops = first.step_ops().unwrap_or(self.step_ops);
        if hurried.first(&first).is_none_or(&mut found) && step_ops <= MOST_SEARCHED_OPS {
            Planner { step_ops, ..*self }.search_on(&chosen, found);
        }
    }

    /// The same beside a first one.
    ///
    /// What is best is found with addresses without end, then addresses are chosen; the same is done with a little room left. Only if
    /// these reach too far, or the program is slower with them, it is done with more room, and then what best fit makes of schedules is
    /// searched as well.
    fn search_on(&self, chosen: &Chosen, mut found: impl FnMut(Schedule) -> bool) {
        let hurried = Planner { rests: 0, ..*self };
        let unplanned_ns = if self.needs_a_schedule() { None } else { self.settled_ns(None) };
        let mut best_ns = unplanned_ns.map_or(u64::MAX, |step_ns| self.weighed_ns(step_ns, false));
        let mut best = None;
        let mut offer = |settled: Option<Settled>, best: &mut Option<Arc<Schedule>>| {
            settled.filter(|settled| settled.weighed_ns < best_ns).is_none_or(|settled| {
                best_ns = settled.weighed_ns;
                *best = Some(Arc::new(settled.schedule.clone()));
                found(settled.schedule)
            })
        };
        let endless = Settings { endless: true, ..self.settings.clone() };
        let has_addresses = self.settings.placement == Placement::SmartPool;
        let mut search = Search::new(Planner { settings: &endless, ..hurried }, chosen);
        let mut is_met = false;
        if has_addresses {
            search.try_rules();
            if !offer(hurried.fitted(&search), &mut best) {
                return;
            }
            search.rest(self.rests);
            search.try_choices();
            let mut placed = self.realised(&search);
            if !offer(placed.clone(), &mut best) {
                return;
            }
            // What is as fast may have addresses that fit better.
            if search.may_improve() && (search.improve() || !search.is_met_by(placed.as_ref())) {
                let improved = self.realised(&search);
                placed = Settled::better(placed.into_iter().chain(improved));
                if !offer(placed.clone(), &mut best) {
                    return;
                }
            }
            for (tried, room_bytes) in self.rooms_bytes(search.need_bytes()).into_iter().enumerate() {
                let is_enough = tried >= ROOMS_ALWAYS_TRIED || search.costs_nothing();
                if is_enough && search.is_met_by(placed.as_ref()) {
                    break;
                }
                let roomy = self.placed_with_room(room_bytes);
                placed = Settled::better(placed.into_iter().chain(roomy));
                if !offer(placed.clone(), &mut best) {
                    return;
                }
            }
            is_met = search.is_met_by(placed.as_ref());
        }
        if !is_met && (!has_addresses || self.iteration.ops.len() <= MOST_REFITTED_OPS) {
            let mut fitted = Search::new(*self, chosen);
            fitted.try_rules();
            fitted.try_choices();
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

    /// What a rule makes of the iteration, if that is clearly faster than none: not judged in the long run, so that a program has a plan
    /// soon.
    fn first(&self, search: &Search) -> Option<Schedule> {
        let (schedule, step_ns) = search.best()?;
        let is_faster = |none: Trial| step_ns as f64 * CLEARLY_FASTER < none.step_ns as f64;
        (self.needs_a_schedule() || self.run(None).is_none_or(is_faster)).then_some(schedule)
    }

    /// Whether what runs without one does what is not allowed.
    fn needs_a_schedule(&self) -> bool {
        self.settings.ways.checkpoints_only
    }

    /// The schedules of a search whose addresses have no end, as memory is: with addresses for their blocks, or by best fit,
    /// whichever is faster.
    fn realised(&self, search: &Search) -> Option<Settled> {
        let placed = self.placed(search);
        if search.is_met_by(placed.as_ref()) {
            return placed;
        }
        Settled::better(placed.into_iter().chain(self.fitted(search)))
    }

    /// With addresses. What is slower than another without may be faster with them.
    fn placed(&self, search: &Search) -> Option<Settled> {
        let mut best: Option<Settled> = None;
        for &(schedule, trial) in search.first(&search.tried()) {
            if best.as_ref().is_some_and(|best| self.is_as_fast(best.step_ns, trial.step_ns)) {
                break;
            }
            best = Settled::better(best.into_iter().chain(self.with_addresses(schedule, trial)));
        }
        best
    }

    /// How much less memory all of the search is done for again: where storages are copied, first what leaves whole hundredths of
    /// `need_bytes`, so that budgets that are close find what each other do.
    fn rooms_bytes(&self, need_bytes: usize) -> Vec<usize> {
        let Settings { ways, budget_bytes, .. } = *self.settings;
        let (most_ops, hundredths, rooms) = match ways.offload {
            true => (MOST_ROOMY_OPS_WITH_COPIES, HUNDREDTHS, &ROOMS_WITH_COPIES[..]),
            false => (MOST_ROOMY_OPS, 0, &ROOMS[..]),
        };
        if self.iteration.ops.len() >= most_ops {
            return Vec::new();
        }
        let hundredth_bytes = (need_bytes / 100).max(1);
        let last_bytes = budget_bytes.saturating_sub(1) % hundredth_bytes + 1;
        let hundredths = (0..hundredths).map(|more| last_bytes + more * hundredth_bytes);
        let parts = rooms.iter().map(|part| (budget_bytes as f64 * part) as usize);
        hundredths.chain(parts).filter(|&room_bytes| room_bytes < budget_bytes).collect()
    }

    /// With addresses in all of memory, what is chosen where a part of it is left as room. Where the addresses of what fills memory
    /// reach too far, more may have to leave, and a rule says what; here it is chosen with all of the iteration in view.
    fn placed_with_room(&self, room_bytes: usize) -> Option<Settled> {
        let settings = Settings { endless: true, ..self.settings.with_less(room_bytes) };
        let chosen = Chosen::new();
        let mut search = Search::new(Planner { settings: &settings, ..*self }, &chosen);
        search.try_rules();
        search.try_choices();
        search.improve();
        self.placed(&search)
    }

    /// The schedule that is fastest by itself, by best fit.
    fn fitted(&self, search: &Search) -> Option<Settled> {
        self.settled(Arc::new(search.best()?.0))
    }

    fn settled(&self, schedule: Arc<Schedule>) -> Option<Settled> {
        let step_ns = self.settled_ns(Some(&schedule))?;
        let weighed_ns = self.weighed_ns(step_ns, schedule.layout.is_some());
        Some(Settled { schedule: Arc::unwrap_or_clone(schedule), step_ns, weighed_ns })
    }

    /// Whether one time is almost another, or less.
    fn is_as_fast(&self, step_ns: u64, other_ns: u64) -> bool {
        let factor = if self.settings.ways.offload { AS_FAST_WITH_COPIES } else { AS_FAST };
        step_ns as f64 <= other_ns as f64 * factor
    }

    fn weighed_ns(&self, step_ns: u64, has_addresses: bool) -> u64 {
        let factor = match (has_addresses, self.settings.ways.offload) {
            (true, _) => 1.0,
            (false, true) => ABOUT_AS_FAST_WITH_COPIES,
            (false, false) => ABOUT_AS_FAST,
        };
        (step_ns as f64 * factor) as u64
    }

    /// The best of schedules that a search makes with encodings; with addresses too, if it knows blocks.
    fn encoded(&self, search: &mut Search, found: Option<&Arc<Schedule>>) -> Option<Settled> {
        let ranked = self.encodings();
        // Where all that helps is dropped, a search has tried that: what it chose is in its evictions.
        if ranked.iter().all(|(_, how)| *how == Eviction::Drop) {
            return None;
        }
        let contenders = search.encode(&ranked, found);
        let placed = if contenders.is_empty() { None } else { self.placed(search) };
        let fitted = contenders.into_iter().filter_map(|schedule| self.settled(schedule));
        Settled::better(placed.into_iter().chain(fitted))
    }

    /// A schedule that says nothing; or, with `clears`, that what the iteration before left and nothing uses leaves as the next begins.
    fn schedule(&self, clears: bool) -> Schedule {
        let mut schedule = self.iteration.schedule();
        if !clears {
            return schedule;
        }
        let offload = self.settings.ways.offload;
        if self.settings.ways.recompute {
            for interval in self.iteration.held_in_vain() {
                let interval = &mut schedule.intervals[interval.0 as usize];
                (interval.how, interval.turn) = (Some(Eviction::Drop), Turn::First);
            }
        }
        for interval in self.iteration.left_over() {
            // Copied when it was made, in an iteration's second half, when little else is. Where it comes of a long chain, it could not
            // be dropped any more.
            let left = &mut schedule.intervals[interval.0 as usize];
            left.copied = offload && left.may_move;
            let how = if left.copied { Eviction::Offload } else { Eviction::Drop };
            schedule.releases.push((0, interval, how));
        }
        schedule
    }

    fn limits(&self) -> Limits {
        let &Settings { ways, budget_bytes, exactness, .. } = self.settings;
        let algorithms = exactness == Exactness::Fast;
        Limits { budget_bytes, offload: ways.offload, recompute: ways.recompute, algorithms }
    }

    /// The schedule of a policy that says itself what is to be done; the fastest, if it says that of several.
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

/// A schedule of what was decided when another was tried.
fn scheduled(tried: &Schedule, trial: &Trial) -> Schedule {
    let mut evictions = trial.decisions.clone();
    evictions.retain(|decision| !tried.releases.contains(decision));
    evictions.sort_by_key(|&(op, ..)| op);
    Schedule { evictions, ..tried.clone() }
}

/// What SuperNeurons makes of an iteration.
pub fn layer_counts(log: &Log, period: usize, props: &Props) -> Option<LayerCounts> {
    Some(LayerCounts::of(&Iteration::cut(log, period)?.dataflow(props)))
}

/// The parts that are zeros of what may be sparse, in the order in which an iteration makes it, if they were counted.
pub fn sparsity(log: &Log, period: usize) -> Option<Vec<f64>> {
    Iteration::cut(log, period)?.sparsity()
}

/// An iteration as policies see it.
#[cfg(test)]
pub fn dataflow(log: &Log, period: usize, props: &Props) -> Option<crate::liveness::Dataflow> {
    Some(Iteration::cut(log, period)?.dataflow(props))
}

/// What would be planned, in words; what is freed between two ops in order.
#[cfg(test)]
pub fn in_words(log: &Log, period: usize) -> Option<String> {
    let mut iteration = Iteration::cut(log, period)?;
    let is_free = |step: &Step| matches!(step, Step::Free(_));
    for freed in iteration.steps.chunk_by_mut(|one, next| is_free(one) && is_free(next)) {
        freed.sort_unstable_by_key(|step| if let Step::Free(slot) = step { *slot } else { 0 });
    }
    Some(format!("{iteration:?}"))
}

#[cfg(test)]
mod tests;
