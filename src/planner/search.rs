//! The candidates that are tried: a rule, assignments of the whole iteration, encodings, then changes that avoid what these cost.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::annealing::Annealing;
use super::assignment::Model;
use super::candidate::{Constraint, FIRST, ScheduleCandidate, constraints};
use super::kinds::Kinds;
use super::problem::{Planner, TimedSchedule};
use super::reservations::Timeline;
use super::trial::{Times, Trial};
use crate::config::Settings;
use crate::schedule::{Eviction, EvictionOrder, IntervalId, Schedule};

/// How often an assignment is annealed: first as if nothing waited, then at the times of the trial of that.
const ROUNDS: usize = 2;
/// An annealing that is begun anew tries so many changes for each storage, at the least.
const LEAST_STEPS_EACH: usize = 20;

/// The constraints that are tried in this order for a storage that takes long to recompute, and for one whose copies ops wait
/// for.
const AVOID_RECOMPUTATION: [Constraint; 4] = [
    Constraint::Reserve(FIRST),
    Constraint::Leave(EvictionOrder::Last),
    Constraint::Leave(EvictionOrder::First),
    Constraint::Drop(EvictionOrder::Any),
];
const AVOID_COPIES: [Constraint; 4] = [
    Constraint::Drop(EvictionOrder::Any),
    Constraint::Leave(EvictionOrder::Last),
    Constraint::Reserve(FIRST),
    Constraint::Leave(EvictionOrder::First),
];

/// A candidate that was tried.
struct TriedCandidate {
    candidate: ScheduleCandidate,
    schedule: Arc<Schedule>,
    trial: Trial,
}

/// A copy that goes through a disk takes as long as so many of its copies: it waits for host memory and for others on the way. Chosen
/// among 1, 1.5, 2 and 3 by the steps of six networks (record 64).
const DISK_COPIES: f64 = 1.5;

/// A search for the fastest schedule of an iteration.
pub struct Search<'a> {
    planner: Planner<'a>,
    /// The timeline of an iteration in which nothing is evicted.
    timeline: Arc<Timeline>,
    /// A schedule that decides nothing by itself.
    base: Arc<Schedule>,
    /// The fastest candidates that were tried, the fastest first. No two take the same time.
    fastest: Vec<TriedCandidate>,
    /// The schedule that was tried last.
    last: Option<Arc<Schedule>>,
}

impl<'a> Search<'a> {
    pub fn new(planner: Planner<'a>) -> Self {
        let Planner { iteration, profile, settings, .. } = planner;
        let page_bytes = settings.page_bytes(settings.budget_bytes);
        let timeline = Timeline::new(iteration, &profile.props, settings.methods.recompute, page_bytes);
        let (timeline, base) = (Arc::new(timeline), Arc::new(planner.schedule()));
        Search { planner, timeline, base, fastest: Vec::new(), last: None }
    }

    /// The work of running the iteration under the fastest schedule, in ops.
    pub fn step_ops(&self) -> Option<usize> {
        self.best().map(|best| best.trial.step_ops)
    }

    fn best(&self) -> Option<&TriedCandidate> {
        self.fastest.first()
    }

    /// The fastest schedules with their trials, the fastest first.
    pub fn fastest(&self) -> impl Iterator<Item = (&Arc<Schedule>, &Trial)> {
        self.fastest.iter().map(|tried| (&tried.schedule, &tried.trial))
    }

    /// Whether a schedule takes about as long as the fastest so far, or less. If the fastest costs nothing, the schedule may
    /// not take longer at all.
    pub fn is_met_by(&self, timed: Option<&TimedSchedule>) -> bool {
        let (Some(timed), Some(best_ns)) = (timed, self.best_ns()) else { return timed.is_some() };
        let is_as_fast = || self.planner.is_as_fast(timed.step_ns, best_ns);
        if self.costs_nothing() { timed.step_ns <= best_ns } else { is_as_fast() }
    }

    /// Whether the fastest schedule recomputes nothing and no op waits.
    pub fn costs_nothing(&self) -> bool {
        let costs_nothing =
            |best: &TriedCandidate| best.trial.rematerialized.is_empty() && best.trial.awaited.is_empty();
        self.best().is_some_and(costs_nothing)
    }

    /// How many trials assignments may take, and changes.
    fn trials(&self) -> usize {
        self.planner.trials_in(self.planner.settings.tunables.trial_ops / 2)
    }

    /// A candidate without constraints on a schedule.
    fn candidate(&self, base: Arc<Schedule>) -> ScheduleCandidate {
        let timeline = self.timeline.clone();
        ScheduleCandidate { base, reserves_all: false, timeline, constraints: HashMap::new() }
    }

    /// Tries the rule, with reservations if storages may be copied.
    pub fn try_rule(&mut self) {
        let reserves_all = self.planner.settings.methods.offload;
        self.attempt(ScheduleCandidate { reserves_all, ..self.candidate(self.base.clone()) });
    }

    /// Tries candidates that follow assignments of the whole iteration.
    pub fn try_assignments(&mut self) {
        if self.costs_nothing() {
            return;
        }
        let Planner { iteration, settings, .. } = self.planner;
        let &Settings { budget_bytes, methods, tunables, .. } = settings;
        let timeline = self.timeline.clone();
        let model = Model::new(iteration, &timeline, methods);
        let plain = Annealing { budget_bytes, seed: 0, steps: 0, max_work: 0, tunables };
        let least_steps = LEAST_STEPS_EACH * plain.candidates(&model).len().max(1);
        let restarts = (tunables.annealing_steps / ROUNDS / least_steps).clamp(1, tunables.restarts);
        let restarts = restarts.min((self.trials() / ROUNDS).max(1));
        let [steps, max_work] =
            [tunables.annealing_steps, tunables.annealing_work].map(|all| all / ROUNDS / restarts);
        for seed in 0..restarts as u64 {
            self.anneal(&model, Annealing { seed, steps, max_work, ..plain });
        }
    }

    /// Tries assignments for a link as fast as other devices make it, which are used beside it, and then for one as slow as a disk makes
    /// it, if there are any: what is offloaded may go there and come back. From then on the search takes the link to be so.
    pub fn try_assignments_of_tiers(&mut self) {
        let Planner { profile, settings, .. } = self.planner;
        let link = profile.props.link_bytes_per_second();
        let with_peers = settings.peers.as_ref().map(|peers| link + peers.rate(&profile.props));
        let with_disk = settings.disk.as_ref().map(|disk| link.min(disk.bytes_per_second / DISK_COPIES));
        with_peers.into_iter().chain(with_disk).for_each(|rate| self.try_assignments_of_link(rate));
    }

    fn try_assignments_of_link(&mut self, link_bytes_per_second: f64) {
        let Planner { iteration, profile, settings, .. } = self.planner;
        let props = profile.props.with_link(link_bytes_per_second);
        let page_bytes = settings.page_bytes(settings.budget_bytes);
        self.timeline = Arc::new(Timeline::new(iteration, &props, settings.methods.recompute, page_bytes));
        self.try_assignments();
    }

    /// Anneals an assignment and tries it, then again at the times of that trial: the lanes have the time too that recomputation
    /// takes and that ops wait.
    fn anneal(&mut self, model: &Model<'_>, annealing: Annealing) {
        let Planner { iteration, settings, .. } = self.planner;
        let mut assignment = self.planner.throttled(|| annealing.run(model, model.kept()));
        let mut timeline = self.timeline.clone();
        for round in 1.. {
            let constraints = constraints(&assignment);
            let candidate = self.candidate(self.base.clone());
            let tried =
                self.attempt(ScheduleCandidate { timeline: timeline.clone(), constraints, ..candidate });
            let Some(times) = tried.filter(|_| round < ROUNDS) else { return };
            timeline = Arc::new(self.timeline.at_times(times));
            let model = Model::new(iteration, &timeline, settings.methods);
            let start = assignment.reserved_anew(&model);
            assignment = self.planner.throttled(|| annealing.run(&model, start));
        }
    }

    /// Tries schedules for less memory. Addresses that they have are not kept.
    pub fn try_known(&mut self, schedules: &[Arc<Schedule>]) {
        for schedule in schedules {
            if self.costs_nothing() {
                return;
            }
            let base = Arc::new(Schedule { layout: None, ..(**schedule).clone() });
            self.attempt(self.candidate(base));
        }
    }

    /// Tries what the fastest candidate and an empty one take if these values wait in fewer bits.
    pub fn encode(&mut self, values: &[(IntervalId, Eviction)]) {
        // If every value that helps is dropped, these drops were tried already.
        let is_worth_it = values.iter().any(|(_, method)| *method != Eviction::Drop);
        if !is_worth_it || self.costs_nothing() {
            return;
        }
        let empty = self.candidate(self.base.clone());
        let fastest = self.best().map(|best| best.candidate.clone());
        for mut candidate in fastest.into_iter().chain([empty]) {
            let released = values.iter().map(|&(interval, method)| (interval, Constraint::Release(method)));
            candidate.constraints.extend(released);
            self.attempt(candidate);
        }
    }

    /// Tries changes that avoid the largest costs of the fastest candidate, those of one kind of intervals after the other: layers
    /// are similar.
    pub fn improve(&mut self) {
        if self.costs_nothing() {
            return;
        }
        let kinds = Kinds::of(self.planner.iteration);
        let mut trials = self.trials();
        while self.avoid_costs(&kinds, &mut trials) {}
    }

    /// Tries to avoid the costs of each kind, the largest first. Returns whether that was of use.
    fn avoid_costs(&mut self, kinds: &Kinds, trials: &mut usize) -> bool {
        let mut tried = HashSet::new();
        let mut improved = false;
        while *trials > 0
            && let Some(TriedCandidate { candidate, trial, .. }) = self.best()
        {
            let mut costs_ns: HashMap<usize, [u64; 2]> = HashMap::new();
            for (what, costs) in [&trial.rematerialized, &trial.awaited].into_iter().enumerate() {
                for &(interval, cost_ns) in costs {
                    costs_ns.entry(kinds.of_interval[interval.0 as usize]).or_default()[what] += cost_ns;
                }
            }
            let untried = costs_ns.into_iter().filter(|(kind, _)| !tried.contains(kind));
            let largest = untried.max_by_key(|&(kind, costs_ns)| (costs_ns.iter().sum::<u64>(), kind));
            let Some((kind, [rematerialized_ns, awaited_ns])) = largest else { break };
            tried.insert(kind);
            let constraints =
                if rematerialized_ns >= awaited_ns { AVOID_RECOMPUTATION } else { AVOID_COPIES };
            let (candidate, before_ns) = (candidate.clone(), trial.step_ns);
            for constraint in constraints {
                if !self.is_possible(constraint) || *trials == 0 {
                    continue;
                }
                *trials -= 1;
                let mut changed = candidate.clone();
                changed.constraints.extend(kinds.members[kind].iter().map(|&member| (member, constraint)));
                if self.attempt(changed).is_some_and(|times| times.step_ns < before_ns) {
                    improved = true;
                    break;
                }
            }
        }
        improved
    }

    fn is_possible(&self, constraint: Constraint) -> bool {
        let methods = self.planner.settings.methods;
        match constraint {
            Constraint::Reserve(_) => methods.offload,
            Constraint::Drop(_) => methods.recompute,
            Constraint::Leave(_) | Constraint::Release(_) => true,
        }
    }

    fn best_ns(&self) -> Option<u64> {
        self.best().map(|best| best.trial.step_ns)
    }

    /// Tries a candidate and keeps it if it is among the fastest so far. Returns its times, or `None` if it fails or equals the
    /// last.
    fn attempt(&mut self, candidate: ScheduleCandidate) -> Option<Times> {
        let schedule = Arc::new(candidate.schedule(&self.planner));
        if self.last.as_ref() == Some(&schedule) {
            return None;
        }
        self.last = Some(schedule.clone());
        let trial = self.planner.run(Some(&schedule))?;
        let times = Times { begins_ns: trial.begins_ns.clone(), step_ns: trial.step_ns };
        let place = self.fastest.binary_search_by_key(&times.step_ns, |tried| tried.trial.step_ns);
        if let Err(place) = place {
            self.fastest.insert(place, TriedCandidate { candidate, schedule, trial });
            self.fastest.truncate(self.planner.settings.tunables.finalists);
        }
        Some(times)
    }
}
