//! The candidates that are tried: rules and assignments, then changes that avoid what a schedule recomputes and the copies that
//! its ops wait for.

use std::cell::OnceCell;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::annealing::{Allowed, Restart, anneal, restarts};
use super::assignment::{Assignment, Model};
use super::candidate::{
    Constraint, Constraints, FIRST, ReservedParts, ScheduleCandidate, constraints, reserved_parts,
};
use super::incremental_cost::IncrementalCost;
use super::kinds::Kinds;
use super::problem::{Planner, TimedSchedule, scheduled};
use super::relaxation::relax;
use super::reservations::Timeline;
use super::trial::Trial;
use crate::schedule::{
    Eviction, EvictionOrder, IntervalId, MAX_PREFETCH_DISTANCE, PrefetchDistance, Schedule, WeightedRule,
};

/// The rules that are tried, as exponents of the time since the last use and of the ops until the next. `None` is the policy's
/// own rule, which leaves small storages alone.
const RULES: [Option<WeightedRule>; 8] = [
    weighed(0.0, 0.5),
    weighed(0.5, 0.5),
    weighed(0.0, 0.25),
    weighed(0.0, 1.0),
    weighed(0.0, 2.0),
    weighed(1.0, 0.5),
    weighed(1.0, 0.0),
    None,
];

const fn weighed(idle: f64, until_next: f64) -> Option<WeightedRule> {
    Some(WeightedRule { idle, until_next })
}

/// How much is reserved in the candidates. Less than everything is tried because recomputation takes memory too, memory is
/// fragmented, and copies without reservations need lanes.
const RESERVED_PARTS: [ReservedParts; 10] = [
    reserved_parts(1.0, 1.0),
    reserved_parts(0.99, 1.0),
    reserved_parts(0.97, 1.0),
    reserved_parts(0.94, 1.0),
    reserved_parts(0.9, 1.0),
    reserved_parts(0.8, 1.0),
    reserved_parts(1.0, 0.8),
    reserved_parts(1.0, 0.6),
    reserved_parts(1.0, 0.4),
    reserved_parts(1.0, 0.2),
];

/// The prefetch distances of copies without reservations that are tried besides the largest. A storage that is fetched too
/// early takes the memory of others that are used before.
const PREFETCH_DISTANCES: [u64; 6] = [
    MAX_PREFETCH_DISTANCE / 2,
    MAX_PREFETCH_DISTANCE / 4,
    MAX_PREFETCH_DISTANCE / 8,
    3 * MAX_PREFETCH_DISTANCE / 32,
    MAX_PREFETCH_DISTANCE / 16,
    0,
];

/// The parts of the budget that assignments are made for. Less than all is tried because recomputation takes memory too and
/// changes the time between ops.
const PARTS: [f64; 3] = [1.0, 0.97, 0.94];

/// The most ops that run for improvements.
const MAX_OPS: usize = 1_200_000;
/// The most ops that run for rules, and for reservations.
const MAX_START_OPS: usize = 1_500_000;
/// The most candidates that changes begin from.
const MAX_STARTS: usize = 20;
/// The most ops that run to choose encodings.
const MAX_ENCODING_OPS: usize = 400_000;
/// The parts of the ranked encodings that are tried first.
const ENCODED_PARTS: [f64; 6] = [1.0, 0.75, 0.5, 0.25, 0.125, 0.0625];

/// The constraints of assignments for each part of the budget, with the timelines that include their recomputations.
pub type AssignmentCache = OnceCell<Vec<(Constraints, Arc<Timeline>)>>;

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

/// The parameters of one annealing.
#[derive(Clone, Copy)]
struct AnnealingRun {
    budget_bytes: usize,
    /// Whether moved storages may visit the device in between.
    visit: bool,
    restart: Restart,
}

/// A search for the fastest schedule of an iteration.
pub struct Search<'a> {
    planner: Planner<'a>,
    /// The timeline of an iteration in which nothing is evicted.
    timeline: Arc<Timeline>,
    /// The assignments, which do not depend on addresses.
    assignments: &'a AssignmentCache,
    best: Option<TriedCandidate>,
    /// The candidates that changes may begin from, with their times.
    starts: Vec<(u64, ScheduleCandidate)>,
    /// The results of changes from each of these.
    ends: Vec<TriedCandidate>,
    /// The schedule that was tried last.
    last: Option<Arc<Schedule>>,
    /// While encodings are chosen: the schedules that were tried, with their times.
    contenders: Option<Vec<(u64, Arc<Schedule>)>>,
}

/// The most schedules with exchanged encodings that are measured in the long run.
const MAX_CONTENDERS: usize = 4;

impl<'a> Search<'a> {
    pub fn new(planner: Planner<'a>, assignments: &'a AssignmentCache) -> Self {
        let Planner { iteration, profile, settings, .. } = planner;
        let page_bytes = settings.page_bytes(settings.budget_bytes);
        let timeline = Timeline::new(iteration, &profile.props, settings.methods.recompute, page_bytes);
        let (timeline, starts, ends) = (Arc::new(timeline), Vec::new(), Vec::new());
        Search { planner, timeline, assignments, best: None, starts, ends, last: None, contenders: None }
    }

    /// The work of running the iteration under the fastest schedule, in ops.
    pub fn step_ops(&self) -> Option<usize> {
        self.best.as_ref().map(|best| best.trial.step_ops)
    }

    /// The most device memory at once if nothing is evicted.
    pub fn need_bytes(&self) -> usize {
        self.timeline.need_bytes().iter().copied().max().unwrap_or(0)
    }

    /// Sets the throttle from now on.
    pub fn set_throttle(&mut self, throttle: u32) {
        self.planner.throttle = throttle;
    }

    /// The fastest schedules so far with their trials, the fastest first.
    pub fn tried(&self) -> Vec<(&Arc<Schedule>, &Trial)> {
        let mut tried: Vec<&TriedCandidate> = self.best.iter().chain(&self.ends).collect();
        tried.sort_by_key(|tried| tried.trial.step_ns);
        tried.into_iter().map(|tried| (&tried.schedule, &tried.trial)).collect()
    }

    /// A schedule that repeats the decisions of the fastest trial, and its time.
    pub fn best(&self) -> Option<(Schedule, u64)> {
        self.best.as_ref().map(|best| (scheduled(&best.schedule, &best.trial), best.trial.step_ns))
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
        self.best.as_ref().is_some_and(costs_nothing)
    }

    /// Tries one rule, with reservations if storages may be copied.
    pub fn try_one(&mut self) {
        self.attempt_start(RULES[0], self.planner.settings.methods.offload.then_some(RESERVED_PARTS[0]));
    }

    /// Tries every rule, without and with reservations.
    pub fn try_rules(&mut self) {
        for &rule in self.affordable(&RULES) {
            self.attempt_start(rule, None);
        }
        self.try_clearing();
        if self.best.as_ref().is_some_and(|best| !best.candidate.clears) {
            self.affordable(&RULES).iter().for_each(|&rule| self.attempt_start(rule, None));
        }
        self.try_prefetch_distances();
        if self.planner.settings.methods.offload {
            self.try_reservations();
        }
    }

    /// The fastest candidate, if storages may be copied.
    fn fastest_with_copies(&self) -> Option<ScheduleCandidate> {
        let best = self.best.as_ref().filter(|_| self.planner.settings.methods.offload);
        best.map(|best| best.candidate.clone())
    }

    /// Tries the fastest candidate with the other choice for storages that the iteration before left, which may have to be
    /// copied.
    fn try_clearing(&mut self) {
        let Some(candidate) = self.fastest_with_copies() else { return };
        self.attempt_candidate(ScheduleCandidate { clears: !candidate.clears, ..candidate });
    }

    /// Tries prefetch distances for the fastest candidate, and before and after that whether small storages are fetched early.
    fn try_prefetch_distances(&mut self) {
        self.try_small_early();
        let Some(candidate) = self.fastest_with_copies() else { return };
        for &parts in self.affordable(&PREFETCH_DISTANCES) {
            let prefetch_distance = PrefetchDistance { parts, ..candidate.prefetch_distance };
            self.attempt_candidate(ScheduleCandidate { prefetch_distance, ..candidate.clone() });
        }
        self.try_small_early();
    }

    fn try_small_early(&mut self) {
        let Some(candidate) = self.fastest_with_copies() else { return };
        let prefetch_distance = PrefetchDistance {
            small_early: !candidate.prefetch_distance.small_early,
            ..candidate.prefetch_distance
        };
        self.attempt_candidate(ScheduleCandidate { prefetch_distance, ..candidate });
    }

    fn try_reservations(&mut self) {
        let Some(rule) = self.best.as_ref().map(|best| best.candidate.rule) else { return };
        for &reserved in self.affordable(&RESERVED_PARTS) {
            self.attempt_start(rule, Some(reserved));
        }
        if let Some(reserved) = self.best.as_ref().and_then(|best| best.candidate.reserved) {
            for &rule in self.affordable(&RULES) {
                self.attempt_start(rule, Some(reserved));
            }
        }
    }

    /// As many as there is time to try, but at least one.
    pub fn affordable<'b, T>(&self, all: &'b [T]) -> &'b [T] {
        &all[..self.planner.trials_in(MAX_START_OPS).max(1).min(all.len())]
    }

    /// Tries candidates that follow an assignment of the whole iteration.
    pub fn try_assignments(&mut self) {
        let best = self.best.as_ref().map(|best| &best.candidate);
        let (rule, prefetch_distance) =
            best.map_or((RULES[0], PrefetchDistance::MAX), |best| (best.rule, best.prefetch_distance));
        let max = self.planner.trials_in(MAX_START_OPS).max(1);
        let chosen = self.assignments.get_or_init(|| self.make_assignments(max));
        let candidates = chosen.iter().flat_map(|chosen| [true, false].map(|at_once| (chosen, at_once)));
        for ((constraints, timeline), at_once) in candidates.take(max) {
            let (timeline, constraints) = (timeline.clone(), constraints.clone());
            let (base, clears) = (None, true);
            self.attempt_candidate(ScheduleCandidate {
                base,
                clears,
                rule,
                prefetch_distance,
                reserved: None,
                at_once,
                timeline,
                constraints,
            });
        }
        self.try_clearing();
        self.try_prefetch_distances();
    }

    /// Makes assignments for parts of the budget, at most `max`. If both eviction methods are allowed, assignments in which
    /// moved storages visit the device are made too.
    fn make_assignments(&self, max: usize) -> Vec<(Constraints, Arc<Timeline>)> {
        let Planner { iteration, settings, .. } = self.planner;
        let model = Model::new(iteration, &self.timeline, settings.methods);
        let ruled = self.best.as_ref();
        let ruled = ruled.map(|best| Assignment::of_decisions(&model, &best.trial.decisions));
        let parts = PARTS.map(|part| {
            let budget_bytes = (settings.budget_bytes as f64 * part) as usize;
            let relaxed = self.planner.throttled(|| relax(&model, budget_bytes));
            (budget_bytes, [relaxed].into_iter().chain(ruled.clone()).collect::<Vec<Assignment>>())
        });
        let both_methods = settings.methods.offload && settings.methods.recompute;
        let visits = if both_methods { &[false, true][..] } else { &[false] };
        let mut chosen = Vec::new();
        for restart in restarts(&model, settings.budget_bytes) {
            for (budget_bytes, starts) in &parts {
                for &visit in visits {
                    if chosen.len() < max {
                        let run = AnnealingRun { budget_bytes: *budget_bytes, visit, restart };
                        chosen.extend(self.annealed(starts, &model, run));
                    }
                }
            }
        }
        chosen.truncate(max);
        chosen
    }

    /// Anneals twice. The first time, recomputation takes no time. The second time it does, the lanes have that time too, and
    /// storages that were recomputed for something else may be dropped again.
    fn annealed(
        &self,
        starts: &[Assignment],
        model: &Model<'_>,
        run: AnnealingRun,
    ) -> [(Constraints, Arc<Timeline>); 2] {
        let AnnealingRun { budget_bytes, visit, restart } = run;
        let allowed = Allowed { visit, drop_again: false };
        let energy_ns = |start: &&Assignment| {
            allowed.energy_ns(model, IncrementalCost::new(model, start, budget_bytes).total())
        };
        let start = starts.iter().min_by(|one, other| energy_ns(one).total_cmp(&energy_ns(other)));
        let start = start.expect("there is at least one").clone();
        let anneal = |model: &Model<'_>, start: Assignment, allowed: Allowed| {
            self.planner.throttled(|| anneal(model, start, budget_bytes, allowed, restart))
        };
        let first = anneal(model, start, allowed);
        let pauses_ns = IncrementalCost::new(model, &first, budget_bytes).rematerialize_ns();
        let paused = Arc::new(self.timeline.with_pauses(&pauses_ns));
        let model = Model::new(self.planner.iteration, &paused, self.planner.settings.methods);
        let start = first.clone().reserved_anew(&model);
        let then = anneal(&model, start, Allowed { visit, drop_again: true });
        [(constraints(&first), self.timeline.clone()), (constraints(&then), paused)]
    }

    fn attempt_start(&mut self, rule: Option<WeightedRule>, reserved: Option<ReservedParts>) {
        let best = self.best.as_ref().map(|best| &best.candidate);
        let (clears, prefetch_distance) =
            best.map_or((true, PrefetchDistance::MAX), |best| (best.clears, best.prefetch_distance));
        let timeline = self.timeline.clone();
        self.attempt_candidate(ScheduleCandidate {
            base: None,
            clears,
            rule,
            prefetch_distance,
            reserved,
            at_once: false,
            timeline,
            constraints: HashMap::new(),
        });
    }

    fn attempt_candidate(&mut self, candidate: ScheduleCandidate) {
        let step_ns = self.attempt(candidate.clone());
        self.starts.extend(step_ns.map(|step_ns| (step_ns, candidate)));
    }

    /// Whether there is time for changes.
    pub fn may_improve(&self) -> bool {
        self.planner.trials_in(MAX_OPS) > 0
    }

    /// Tries changes, first of the fastest candidate and then of others, since the best start does not always lead to the best
    /// end. Returns whether that found a faster schedule.
    pub fn improve(&mut self) -> bool {
        let before_ns = self.best_ns();
        let mut trials = self.planner.trials_in(MAX_OPS);
        let kinds = Kinds::of(self.planner.iteration);
        let mut starts = std::mem::take(&mut self.starts);
        starts.sort_by_key(|&(step_ns, _)| step_ns);
        starts.dedup_by_key(|&mut (step_ns, _)| step_ns);
        for (_, start) in starts.into_iter().take(MAX_STARTS.min(trials)) {
            let champion = self.best.take();
            self.last = None;
            self.attempt(start);
            self.climb(&kinds, &mut trials);
            let mut tried: Vec<TriedCandidate> = self.best.take().into_iter().chain(champion).collect();
            tried.sort_by_key(|tried| tried.trial.step_ns);
            let mut tried = tried.into_iter();
            self.best = tried.next();
            self.ends.extend(tried);
        }
        self.best_ns() < before_ns
    }

    /// Chooses which of the ranked values to encode. First it adds all of them or a part to the fastest candidate, to the
    /// schedule that was `found` by all searches, and to an empty one. Then it flips kinds of storages and single ones as long
    /// as that is faster. It returns the schedules that were tried first, and the fastest of the rest.
    pub fn encode(
        &mut self,
        ranked: &[(IntervalId, Eviction)],
        found: Option<&Arc<Schedule>>,
    ) -> Vec<Arc<Schedule>> {
        if ranked.is_empty() || self.costs_nothing() {
            return Vec::new();
        }
        self.contenders = Some(Vec::new());
        let clears = self.best.as_ref().is_none_or(|best| best.candidate.clears);
        let plain = Arc::new(self.planner.schedule(clears));
        // The planned addresses are those of other blocks.
        let found = found.map(|found| Arc::new(Schedule { layout: None, ..(**found).clone() }));
        let based = [plain].into_iter().chain(found).map(|base| ScheduleCandidate {
            base: Some(base),
            clears,
            rule: RULES[0],
            prefetch_distance: PrefetchDistance::MAX,
            reserved: None,
            at_once: false,
            timeline: self.timeline.clone(),
            constraints: HashMap::new(),
        });
        let fastest = self.best.as_ref().map(|best| best.candidate.clone());
        let starts: Vec<ScheduleCandidate> = fastest.into_iter().chain(based).collect();
        let free = ranked.iter().take_while(|(_, method)| *method == Eviction::Drop).count();
        for part in self.affordable(&ENCODED_PARTS) {
            let count = free + ((ranked.len() - free) as f64 * part).ceil() as usize;
            for start in &starts {
                let released =
                    ranked[..count].iter().map(|&(interval, method)| (interval, Constraint::Release(method)));
                let mut candidate = start.clone();
                candidate.constraints.extend(released);
                self.attempt(candidate);
            }
        }
        let first = self.contenders.replace(Vec::new());
        let mut trials = self.planner.trials_in(MAX_ENCODING_OPS);
        while self.flip_encodings(&starts[0], ranked, &mut trials) {}
        let mut exchanged = self.contenders.take().unwrap_or_default();
        exchanged.sort_by_key(|&(step_ns, _)| step_ns);
        exchanged.truncate(MAX_CONTENDERS);
        first.into_iter().flatten().chain(exchanged).map(|(_, schedule)| schedule).collect()
    }

    /// Flips the encodings of kinds and then of single storages: values that are not encoded become encoded, and others go back
    /// to their constraint in another candidate. It keeps what is faster.
    fn flip_encodings(
        &mut self,
        other: &ScheduleCandidate,
        ranked: &[(IntervalId, Eviction)],
        trials: &mut usize,
    ) -> bool {
        let before_ns = self.best_ns();
        let kinds = Kinds::of(self.planner.iteration);
        let kind = |&(interval, _): &(IntervalId, Eviction)| kinds.of_interval[interval.0 as usize];
        let mut groups: Vec<Vec<(IntervalId, Eviction)>> = Vec::new();
        for one in ranked {
            match groups.iter_mut().find(|group| kind(&group[0]) == kind(one)) {
                Some(group) => group.push(*one),
                None => groups.push(vec![*one]),
            }
        }
        groups.retain(|group| group.len() > 1);
        groups.extend(ranked.iter().map(|&one| vec![one]));
        for group in groups {
            let Some(TriedCandidate { candidate, .. }) = &self.best else { return false };
            if *trials == 0 {
                return false;
            }
            *trials -= 1;
            let mut candidate = candidate.clone();
            let is_released = |&(interval, method)| {
                candidate.constraints.get(&interval) == Some(&Constraint::Release(method))
            };
            let all_are = group.iter().all(is_released);
            for (interval, method) in group {
                match (all_are, other.constraints.get(&interval)) {
                    (false, _) => candidate.constraints.insert(interval, Constraint::Release(method)),
                    (true, Some(&constraint)) => candidate.constraints.insert(interval, constraint),
                    (true, None) => candidate.constraints.remove(&interval),
                };
            }
            self.attempt(candidate);
        }
        self.best_ns() != before_ns
    }

    fn best_ns(&self) -> Option<u64> {
        self.best.as_ref().map(|best| best.trial.step_ns)
    }

    /// Tries to avoid the largest costs, first for whole kinds of storages, since layers are similar, and then one by one.
    fn climb(&mut self, kinds: &Kinds, trials: &mut usize) {
        loop {
            let by_kind = self.avoid_costs(
                trials,
                |interval| kinds.of_interval[interval.0 as usize],
                |&kind| kinds.members[kind].clone(),
            );
            let one_by_one = self.avoid_costs(trials, |interval| interval, |&interval| vec![interval]);
            if !by_kind && !one_by_one {
                return;
            }
        }
    }

    /// Tries changes of one group of intervals after the other, the one with the largest cost first.
    fn avoid_costs<K: Copy + Eq + Ord + std::hash::Hash>(
        &mut self,
        trials: &mut usize,
        group: impl Fn(IntervalId) -> K,
        members: impl Fn(&K) -> Vec<IntervalId>,
    ) -> bool {
        let mut tried = HashSet::new();
        let mut improved = false;
        while *trials > 0
            && let Some(TriedCandidate { candidate, trial, .. }) = &self.best
        {
            let mut costs_ns: HashMap<K, [u64; 2]> = HashMap::new();
            for (kind_of_cost, costs) in [&trial.rematerialized, &trial.awaited].into_iter().enumerate() {
                for &(interval, cost_ns) in costs {
                    costs_ns.entry(group(interval)).or_default()[kind_of_cost] += cost_ns;
                }
            }
            let untried = costs_ns.into_iter().filter(|(key, _)| !tried.contains(key));
            let largest = untried
                .max_by_key(|&(key, [rematerialized_ns, awaited_ns])| (rematerialized_ns + awaited_ns, key));
            let Some((key, [rematerialized_ns, awaited_ns])) = largest else { break };
            tried.insert(key);
            let constraints =
                if rematerialized_ns >= awaited_ns { AVOID_RECOMPUTATION } else { AVOID_COPIES };
            let (candidate, before_ns, members) = (candidate.clone(), trial.step_ns, members(&key));
            for constraint in constraints {
                let possible = match constraint {
                    Constraint::Reserve(_) => self.planner.settings.methods.offload,
                    Constraint::Drop(_) => self.planner.settings.methods.recompute,
                    Constraint::Leave(_) | Constraint::Release(_) => true,
                };
                if !possible || *trials == 0 {
                    continue;
                }
                *trials -= 1;
                let mut changed = candidate.clone();
                changed.constraints.extend(members.iter().map(|&member| (member, constraint)));
                if self.attempt(changed).is_some_and(|step_ns| step_ns < before_ns) {
                    improved = true;
                    break;
                }
            }
        }
        improved
    }

    /// Tries a candidate and keeps it if it is the fastest so far. Returns its time, or `None` if it fails or equals the last.
    fn attempt(&mut self, candidate: ScheduleCandidate) -> Option<u64> {
        let schedule = Arc::new(candidate.schedule(&self.planner));
        if self.last.as_ref() == Some(&schedule) {
            return None;
        }
        self.last = Some(schedule.clone());
        let trial = self.planner.run(Some(&schedule))?;
        let step_ns = trial.step_ns;
        if let Some(contenders) = &mut self.contenders {
            contenders.push((step_ns, schedule.clone()));
        }
        if self.best_ns().is_none_or(|best_ns| step_ns < best_ns) {
            self.best = Some(TriedCandidate { candidate, schedule, trial });
        }
        Some(step_ns)
    }
}
