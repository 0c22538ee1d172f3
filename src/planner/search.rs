//! What is tried: rules, and what is chosen with all of an iteration in view; then changes that spare what a schedule
//! recomputes, and copies that its ops wait for.

use std::cell::OnceCell;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::annealing::{Allowed, Restart, anneal, restarts};
use super::assignment::{Assignment, Model};
use super::incremental_cost::IncrementalCost;
use super::kinds::Kinds;
use super::problem::{Planner, TimedSchedule, scheduled};
use super::relaxation::relax;
use super::reservations::{CopyReservation, ReservationLimits, Timeline};
use super::trial::Trial;
use crate::schedule::{
    Eviction, EvictionOrder, IntervalId, MAX_PREFETCH_DISTANCE, PrefetchDistance, Schedule, WeightedRule,
};

/// Rules that are tried: powers of the time since the last use, and of that until the next; and the policy's own, which spares what is
/// small.
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

/// Bookings that are tried: what is recomputed takes memory too, memory is in pieces, and copies that are not booked need
/// lanes.
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

const fn reserved_parts(budget: f64, lanes: f64) -> ReservedParts {
    ReservedParts { budget, lanes }
}

/// How far ahead is fetched what is not booked, besides the most: what is fetched too early takes the room of what is used before.
const PREFETCH_DISTANCES: [u64; 6] = [
    MAX_PREFETCH_DISTANCE / 2,
    MAX_PREFETCH_DISTANCE / 4,
    MAX_PREFETCH_DISTANCE / 8,
    3 * MAX_PREFETCH_DISTANCE / 32,
    MAX_PREFETCH_DISTANCE / 16,
    0,
];

/// Parts of the budget that choices are made for: what is recomputed takes memory too, and ops do not take the same time when
/// others are run between.
const PARTS: [f64; 3] = [1.0, 0.97, 0.94];

/// Ops that are run for improvements, at the most.
const MAX_OPS: usize = 1_200_000;
/// Ops that are run for rules, and for bookings, at the most.
const MAX_START_OPS: usize = 1_500_000;
/// Schedules that changes begin from, at the most.
const MAX_STARTS: usize = 20;
/// Ops that are run to weigh what is encoded, at the most.
const MAX_ENCODING_OPS: usize = 400_000;
/// Parts of what can be encoded that are tried first, of those that save the most for their time.
const ENCODED_PARTS: [f64; 6] = [1.0, 0.75, 0.5, 0.25, 0.125, 0.0625];

/// What a schedule is made from.
#[derive(Clone, Debug)]
struct ScheduleCandidate {
    /// A schedule that does something already, and has its own rule.
    base: Option<Arc<Schedule>>,
    /// Whether what the iteration before left leaves at once: see [`Planner::schedule`].
    clears: bool,
    rule: Option<WeightedRule>,
    /// How far ahead is fetched what is not booked.
    prefetch_distance: PrefetchDistance,
    /// Whether copies are booked that nothing is wished of.
    reserved: Option<ReservedParts>,
    /// What is booked leaves as soon as its copy is made: a program that is not full all the time finds addresses more easily. What
    /// something is to be made from does better to stay.
    at_once: bool,
    /// By which copies are booked.
    timeline: Arc<Timeline>,
    constraints: Constraints,
}

type Constraints = HashMap<IntervalId, Constraint>;

/// What is wished with all of an iteration in view, for each part of the budget, and the time that this takes.
pub type AssignmentCache = OnceCell<Vec<(Constraints, Arc<Timeline>)>>;

/// How much is booked.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ReservedParts {
    /// The part of the budget that the program is to fit.
    budget: f64,
    /// The part of the time in which a lane may be at work.
    lanes: f64,
}

/// What to do with a storage in an interval, if it can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// Its copies are booked.
    Reserve(CopyReservation),
    /// It is recomputed, and leaves in its turn.
    Drop(EvictionOrder),
    Leave(EvictionOrder),
    /// It leaves as soon as the interval begins, above all encoded.
    Release(Eviction),
}

/// Before all else, and after all that is wished.
const FIRST: CopyReservation = CopyReservation { rank: 0, visited: None };
const LAST: CopyReservation = CopyReservation { rank: u32::MAX, visited: None };

/// What is tried of a storage that takes long to recompute, in this order; of one whose copies others wait for.
const SPARE_OPS: [Constraint; 4] = [
    Constraint::Reserve(FIRST),
    Constraint::Leave(EvictionOrder::Last),
    Constraint::Leave(EvictionOrder::First),
    Constraint::Drop(EvictionOrder::Any),
];
const SPARE_COPIES: [Constraint; 4] = [
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

/// What distinguishes one run of the annealing from others.
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
    /// Of an iteration in which nothing is evicted.
    timeline: Arc<Timeline>,
    /// The same wherever addresses end.
    chosen: &'a AssignmentCache,
    best: Option<TriedCandidate>,
    /// Drafts that changes may begin from, and how long they take.
    starts: Vec<(u64, ScheduleCandidate)>,
    /// What changes led to, from each.
    ends: Vec<TriedCandidate>,
    /// What was tried last.
    last: Option<Arc<Schedule>>,
    /// While encodings are weighed: what was tried, and how long it took.
    contenders: Option<Vec<(u64, Arc<Schedule>)>>,
}

/// Of schedules that encodings are exchanged in, those that are run for longer afterwards.
const MAX_CONTENDERS: usize = 4;

impl<'a> Search<'a> {
    pub fn new(planner: Planner<'a>, chosen: &'a AssignmentCache) -> Self {
        let Planner { iteration, profile, settings, .. } = planner;
        let page_bytes = settings.page_bytes(settings.budget_bytes);
        let timeline = Timeline::new(iteration, &profile.props, settings.ways.recompute, page_bytes);
        let (timeline, starts, ends) = (Arc::new(timeline), Vec::new(), Vec::new());
        Search { planner, timeline, chosen, best: None, starts, ends, last: None, contenders: None }
    }

    /// What it takes to run an iteration as the fastest does, in ops.
    pub fn step_ops(&self) -> Option<usize> {
        self.best.as_ref().map(|best| best.trial.step_ops)
    }

    /// The most device memory at once, if nothing leaves.
    pub fn need_bytes(&self) -> usize {
        self.timeline.need_bytes().iter().copied().max().unwrap_or(0)
    }

    /// Rests from now on so many times as long as it works.
    pub fn set_throttle(&mut self, throttle: u32) {
        self.planner.throttle = throttle;
    }

    /// The fastest schedules so far, the fastest first, and how they went.
    pub fn tried(&self) -> Vec<(&Arc<Schedule>, &Trial)> {
        let mut tried: Vec<&TriedCandidate> = self.best.iter().chain(&self.ends).collect();
        tried.sort_by_key(|tried| tried.trial.step_ns);
        tried.into_iter().map(|tried| (&tried.schedule, &tried.trial)).collect()
    }

    /// The decisions that the fastest led to, as a script, and its time.
    pub fn best(&self) -> Option<(Schedule, u64)> {
        self.best.as_ref().map(|best| (scheduled(&best.schedule, &best.trial), best.trial.step_ns))
    }

    /// Whether a schedule takes almost the time of the fastest so far, or less; no more, where that costs nothing.
    pub fn is_met_by(&self, timed: Option<&TimedSchedule>) -> bool {
        let (Some(timed), Some(best_ns)) = (timed, self.best_ns()) else { return timed.is_some() };
        let is_as_fast = || self.planner.is_as_fast(timed.step_ns, best_ns);
        if self.costs_nothing() { timed.step_ns <= best_ns } else { is_as_fast() }
    }

    /// Whether nothing is made again in the fastest, and no op waits.
    pub fn costs_nothing(&self) -> bool {
        let costs_nothing =
            |best: &TriedCandidate| best.trial.rematerialized.is_empty() && best.trial.awaited.is_empty();
        self.best.as_ref().is_some_and(costs_nothing)
    }

    /// Tries one rule, with copies booked if there may be any.
    pub fn try_one(&mut self) {
        self.attempt_start(RULES[0], self.planner.settings.ways.offload.then_some(RESERVED_PARTS[0]));
    }

    /// Tries every rule, with copies booked and without.
    pub fn try_rules(&mut self) {
        for &rule in self.affordable(&RULES) {
            self.attempt_start(rule, None);
        }
        self.try_clearing();
        if self.best.as_ref().is_some_and(|best| !best.candidate.clears) {
            self.affordable(&RULES).iter().for_each(|&rule| self.attempt_start(rule, None));
        }
        self.try_prefetch_distances();
        if self.planner.settings.ways.offload {
            self.try_reservations();
        }
    }

    /// The fastest candidate, where storages may be copied.
    fn fastest_with_copies(&self) -> Option<ScheduleCandidate> {
        let best = self.best.as_ref().filter(|_| self.planner.settings.ways.offload);
        best.map(|best| best.candidate.clone())
    }

    /// Tries the fastest candidate with what the iteration before left leaving at once if it stays, or the other way round, where it may
    /// have to be copied.
    fn try_clearing(&mut self) {
        let Some(candidate) = self.fastest_with_copies() else { return };
        self.attempt_candidate(ScheduleCandidate { clears: !candidate.clears, ..candidate });
    }

    /// Tries how far ahead the fastest candidate best fetches what it does not book, and before and after whether it hurries with what is
    /// small.
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
            hurries_small: !candidate.prefetch_distance.hurries_small,
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

    /// As many as there is time to try; one at the least.
    pub fn affordable<'b, T>(&self, all: &'b [T]) -> &'b [T] {
        &all[..self.planner.trials_in(MAX_START_OPS).max(1).min(all.len())]
    }

    /// Tries what is chosen with all of an iteration in view.
    pub fn try_assignments(&mut self) {
        let best = self.best.as_ref().map(|best| &best.candidate);
        let (rule, prefetch_distance) =
            best.map_or((RULES[0], PrefetchDistance::MAX), |best| (best.rule, best.prefetch_distance));
        let most = self.planner.trials_in(MAX_START_OPS).max(1);
        let chosen = self.chosen.get_or_init(|| self.choose(most));
        let candidates = chosen.iter().flat_map(|chosen| [true, false].map(|at_once| (chosen, at_once)));
        for ((constraints, timeline), at_once) in candidates.take(most) {
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

    /// What is wished for parts of the budget, at most so often; and where both ways are allowed, if what is moved may come back for what is
    /// made from it.
    fn choose(&self, most: usize) -> Vec<(Constraints, Arc<Timeline>)> {
        let Planner { iteration, settings, .. } = self.planner;
        let model = Model::new(iteration, &self.timeline, settings.ways);
        let ruled = self.best.as_ref();
        let ruled = ruled.map(|best| Assignment::of_decisions(&model, &best.trial.decisions));
        let parts = PARTS.map(|part| {
            let budget_bytes = (settings.budget_bytes as f64 * part) as usize;
            let relaxed = self.planner.throttled(|| relax(&model, budget_bytes));
            (budget_bytes, [relaxed].into_iter().chain(ruled.clone()).collect::<Vec<Assignment>>())
        });
        let both_ways = settings.ways.offload && settings.ways.recompute;
        let visits = if both_ways { &[false, true][..] } else { &[false] };
        let mut chosen = Vec::new();
        for restart in restarts(&model, settings.budget_bytes) {
            for (budget_bytes, starts) in &parts {
                for &visit in visits {
                    if chosen.len() < most {
                        let run = AnnealingRun { budget_bytes: *budget_bytes, visit, restart };
                        chosen.extend(self.chosen_from(starts, &model, run));
                    }
                }
            }
        }
        chosen.truncate(most);
        chosen
    }

    /// First as if nothing took time to be made again; then with that time, which lanes have too, and what is made again for something
    /// else may be dropped again.
    fn chosen_from(
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
        let model = Model::new(self.planner.iteration, &paused, self.planner.settings.ways);
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

    /// Tries changes, of the fastest schedule first, then of others: what is best to change is not always best at first.
    /// Whether that was of any use.
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

    /// Weighs what can be encoded, by what it is worth: first all and parts of it, beside what the fastest candidate does, what was `found`
    /// by all searches, and nothing; then kinds of storages and single ones, each the other way round, for as long as that is faster.
    /// What was tried first, and the fastest of the rest.
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
        // Addresses that were planned are for other blocks.
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
        let free = ranked.iter().take_while(|(_, how)| *how == Eviction::Drop).count();
        for part in self.affordable(&ENCODED_PARTS) {
            let count = free + ((ranked.len() - free) as f64 * part).ceil() as usize;
            for start in &starts {
                let released =
                    ranked[..count].iter().map(|&(interval, how)| (interval, Constraint::Release(how)));
                let mut candidate = start.clone();
                candidate.constraints.extend(released);
                self.attempt(candidate);
            }
        }
        let first = self.contenders.replace(Vec::new());
        let mut trials = self.planner.trials_in(MAX_ENCODING_OPS);
        while self.exchange(&starts[0], ranked, &mut trials) {}
        let mut exchanged = self.contenders.take().unwrap_or_default();
        exchanged.sort_by_key(|&(step_ns, _)| step_ns);
        exchanged.truncate(MAX_CONTENDERS);
        first.into_iter().flatten().chain(exchanged).map(|(_, schedule)| schedule).collect()
    }

    /// Encodes what is not, kind by kind and then one by one, and has what is do as in another candidate; keeps what is faster.
    fn exchange(
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
            let is_released =
                |&(interval, how)| candidate.constraints.get(&interval) == Some(&Constraint::Release(how));
            let all_are = group.iter().all(is_released);
            for (interval, how) in group {
                match (all_are, other.constraints.get(&interval)) {
                    (false, _) => candidate.constraints.insert(interval, Constraint::Release(how)),
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

    /// Tries to spare what takes longest to have back: kinds of storages together, since layers are alike, then one by one.
    fn climb(&mut self, kinds: &Kinds, trials: &mut usize) {
        loop {
            let by_kind = self.spare(
                trials,
                |interval| kinds.of_interval[interval.0 as usize],
                |&kind| kinds.members[kind].clone(),
            );
            let one_by_one = self.spare(trials, |interval| interval, |&interval| vec![interval]);
            if !by_kind && !one_by_one {
                return;
            }
        }
    }

    /// Tries changes of one group of intervals after the other, the one first that takes the most time.
    fn spare<K: Copy + Eq + Ord + std::hash::Hash>(
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
            for (way, costs) in [&trial.rematerialized, &trial.awaited].into_iter().enumerate() {
                for &(interval, cost_ns) in costs {
                    costs_ns.entry(group(interval)).or_default()[way] += cost_ns;
                }
            }
            let untried = costs_ns.into_iter().filter(|(key, _)| !tried.contains(key));
            let dearest = untried
                .max_by_key(|&(key, [rematerialized_ns, awaited_ns])| (rematerialized_ns + awaited_ns, key));
            let Some((key, [rematerialized_ns, awaited_ns])) = dearest else { break };
            tried.insert(key);
            let constraints = if rematerialized_ns >= awaited_ns { SPARE_OPS } else { SPARE_COPIES };
            let (candidate, before_ns, members) = (candidate.clone(), trial.step_ns, members(&key));
            for constraint in constraints {
                let possible = match constraint {
                    Constraint::Reserve(_) => self.planner.settings.ways.offload,
                    Constraint::Drop(_) => self.planner.settings.ways.recompute,
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

    /// Tries a candidate, and keeps it if it is the fastest so far. How long it takes; `None` if it fails, or is like the last.
    fn attempt(&mut self, candidate: ScheduleCandidate) -> Option<u64> {
        let schedule = Arc::new(self.schedule(&candidate));
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

    fn schedule(&self, candidate: &ScheduleCandidate) -> Schedule {
        let ScheduleCandidate { clears, rule, prefetch_distance, .. } = *candidate;
        let ruled = || Schedule { rule, reach: prefetch_distance, ..self.planner.schedule(clears) };
        let mut schedule = candidate.base.as_ref().map_or_else(ruled, |base| (**base).clone());
        for (&interval, &constraint) in &candidate.constraints {
            let at = interval.0 as usize;
            let interval = &mut schedule.intervals[at];
            match constraint {
                Constraint::Leave(turn) => interval.turn = turn,
                Constraint::Drop(turn) => (interval.how, interval.turn) = (Some(Eviction::Drop), turn),
                Constraint::Release(how) => {
                    let (_, op) = self.planner.iteration.of_interval[at];
                    schedule.releases.push((op, IntervalId(at as u32), how));
                }
                Constraint::Reserve(_) => {}
            }
        }
        let constraint = |interval| candidate.constraints.get(&interval).copied();
        let is_reserved = |constraint: &Constraint| matches!(constraint, Constraint::Reserve(_));
        if candidate.reserved.is_some() || candidate.constraints.values().any(is_reserved) {
            let reserved = candidate.reserved.unwrap_or(reserved_parts(1.0, 1.0));
            let budget_bytes = (self.planner.settings.budget_bytes as f64 * reserved.budget) as usize;
            let reservation = |interval| match constraint(interval) {
                Some(Constraint::Reserve(reservation)) => Some(reservation),
                None => candidate.reserved.map(|_| LAST),
                Some(_) => None,
            };
            let limits =
                ReservationLimits { budget_bytes, lanes_part: reserved.lanes, at_once: candidate.at_once };
            candidate.timeline.reserve(&mut schedule, limits, reservation);
        }
        schedule.releases.sort_unstable_by_key(|&(op, interval, _)| (op, interval));
        schedule
    }
}

fn constraints(assignment: &Assignment) -> Constraints {
    let (dropped, moved) = assignment.leaving();
    let dropped = dropped.into_iter().map(|interval| (interval, Constraint::Drop(EvictionOrder::First)));
    let moved = moved.into_iter().zip(1..);
    let moved = moved.map(|((interval, visited), rank)| {
        (interval, Constraint::Reserve(CopyReservation { rank, visited }))
    });
    dropped.chain(moved).collect()
}
