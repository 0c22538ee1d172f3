//! The candidates that are tried: assignments of the whole iteration, then changes that avoid what a schedule recomputes and the
//! copies that its ops wait for, then encodings.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::annealing::{Allowed, Annealing};
use super::assignment::{Assignment, Model};
use super::candidate::{Constraint, FIRST, ScheduleCandidate, constraints};
use super::kinds::Kinds;
use super::problem::{Planner, TimedSchedule, scheduled};
use super::reservations::Timeline;
use super::trial::{Times, Trial};
use crate::config::Settings;
use crate::schedule::{
    Eviction, EvictionOrder, IntervalId, MAX_PREFETCH_DISTANCE, PrefetchDistance, Schedule,
};

/// The parts of the ranked encodings that are tried first.
const ENCODED_PARTS: [f64; 6] = [1.0, 0.75, 0.5, 0.25, 0.125, 0.0625];
/// How early storages are fetched that have no reservation.
const PREFETCH_DISTANCES: [u64; 3] =
    [MAX_PREFETCH_DISTANCE, MAX_PREFETCH_DISTANCE / 4, MAX_PREFETCH_DISTANCE / 16];
/// How often an assignment is annealed: first as if nothing waited, then at the times of the trial of that.
const ROUNDS: usize = 2;
/// An annealing that is begun anew tries so many changes for each storage, at the least.
const LEAST_STEPS_EACH: usize = 20;
/// The parts of the trials that assignments, changes and encodings are tried with.
const ASSIGNMENTS_PART: usize = 2;
const CHANGES_PART: usize = 4;
const ENCODINGS_PART: usize = 4;

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

/// A search for the fastest schedule of an iteration.
pub struct Search<'a> {
    planner: Planner<'a>,
    /// The timeline of an iteration in which nothing is evicted.
    timeline: Arc<Timeline>,
    /// A schedule that decides nothing by itself.
    base: Arc<Schedule>,
    best: Option<TriedCandidate>,
    /// The schedule that was tried last.
    last: Option<Arc<Schedule>>,
}

impl<'a> Search<'a> {
    pub fn new(planner: Planner<'a>) -> Self {
        let Planner { iteration, profile, settings, .. } = planner;
        let page_bytes = settings.page_bytes(settings.budget_bytes);
        let timeline = Timeline::new(iteration, &profile.props, settings.methods.recompute, page_bytes);
        let (timeline, base) = (Arc::new(timeline), Arc::new(planner.schedule()));
        Search { planner, timeline, base, best: None, last: None }
    }

    /// The work of running the iteration under the fastest schedule, in ops.
    pub fn step_ops(&self) -> Option<usize> {
        self.best.as_ref().map(|best| best.trial.step_ops)
    }

    /// The fastest schedule with its trial.
    pub fn fastest(&self) -> Option<(&Arc<Schedule>, &Trial)> {
        self.best.as_ref().map(|best| (&best.schedule, &best.trial))
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

    /// How many trials a part of the search may take.
    fn trials(&self, part: usize) -> usize {
        self.planner.trials_in(self.planner.settings.tunables.trial_ops / part)
    }

    /// A candidate without constraints on a schedule.
    fn candidate(&self, base: Arc<Schedule>) -> ScheduleCandidate {
        let timeline = self.timeline.clone();
        ScheduleCandidate { base, reserves_all: false, at_once: false, timeline, constraints: HashMap::new() }
    }

    /// Tries the rule, with reservations if storages may be copied. What has no reservation is fetched early or late, whichever is
    /// faster. All other candidates do the same.
    pub fn try_rule(&mut self) {
        let reserves_all = self.planner.settings.methods.offload;
        let distances = if reserves_all { &PREFETCH_DISTANCES[..] } else { &PREFETCH_DISTANCES[..1] };
        for &parts in distances {
            let prefetch_distance = PrefetchDistance { parts };
            let base = Arc::new(Schedule { prefetch_distance, ..self.planner.schedule() });
            self.attempt(ScheduleCandidate { reserves_all, ..self.candidate(base) });
        }
        if let Some(TriedCandidate { candidate, .. }) = &self.best {
            self.base = candidate.base.clone();
        }
    }

    /// Tries candidates that follow assignments of the whole iteration. These are for the whole budget and, since recomputation
    /// takes memory too, for a part of it. If both eviction methods are allowed, storages on the host may come back in between in
    /// half of them.
    pub fn try_assignments(&mut self) {
        if self.costs_nothing() {
            return;
        }
        let Planner { iteration, settings, .. } = self.planner;
        let &Settings { budget_bytes, methods, tunables, .. } = settings;
        let timeline = self.timeline.clone();
        let model = Model::new(iteration, &timeline, methods);
        let ruled = self.best.as_ref();
        let decisions = ruled.map_or(&[][..], |ruled| &ruled.trial.decisions);
        let start = Assignment::of_decisions(&model, decisions);
        let visits = if methods.offload && methods.recompute { &[false, true][..] } else { &[false] };
        let parts = [1.0, 1.0 - tunables.rung_height];
        let each = parts.len() * visits.len() * ROUNDS;
        let plain =
            Annealing { budget_bytes, allowed: Allowed::default(), seed: 0, steps: 0, max_work: 0, tunables };
        let least_steps = LEAST_STEPS_EACH * plain.candidates(&model).len().max(1);
        let mut trials = self.trials(ASSIGNMENTS_PART).max(2);
        let restarts = (tunables.annealing_steps / each / least_steps).clamp(1, tunables.restarts);
        let restarts = restarts.min(trials.div_ceil(2 * each));
        let [steps, max_work] =
            [tunables.annealing_steps, tunables.annealing_work].map(|all| all / each / restarts);
        for (part, &visit) in parts.iter().flat_map(|part| visits.iter().map(move |visit| (part, visit))) {
            let budget_bytes = (budget_bytes as f64 * part) as usize;
            let allowed = Allowed { visit, drop_again: false };
            let annealing = Annealing { budget_bytes, allowed, steps, max_work, ..plain };
            for seed in 0..restarts as u64 {
                self.anneal(&start, Annealing { seed, ..annealing }, &mut trials);
            }
        }
    }

    /// Anneals an assignment and tries it, then again at the times of that trial. The lanes have the time too that recomputation
    /// takes and that ops wait. The second time, storages that were recomputed for something else may be dropped again.
    fn anneal(&mut self, start: &Assignment, annealing: Annealing, trials: &mut usize) {
        let Planner { iteration, settings, .. } = self.planner;
        let (mut start, mut timeline) = (start.clone(), self.timeline.clone());
        for round in 0..ROUNDS {
            let model = Model::new(iteration, &timeline, settings.methods);
            if round > 0 {
                start = start.reserved_anew(&model);
            }
            let allowed = Allowed { drop_again: round > 0, ..annealing.allowed };
            start = self.planner.throttled(|| Annealing { allowed, ..annealing }.run(&model, start));
            let constraints = constraints(&start);
            let mut fastest: Option<Times> = None;
            for at_once in [true, false] {
                if *trials == 0 {
                    return;
                }
                *trials -= 1;
                let (constraints, timeline) = (constraints.clone(), timeline.clone());
                let candidate = self.candidate(self.base.clone());
                let tried = self.attempt(ScheduleCandidate { at_once, timeline, constraints, ..candidate });
                fastest = tried.into_iter().chain(fastest).min_by_key(|times| times.step_ns);
            }
            let Some(times) = fastest else { return };
            timeline = Arc::new(self.timeline.at_times(times));
        }
    }

    /// Tries changes that avoid the largest costs of the fastest candidate, first for whole kinds of storages, since layers are
    /// similar, and then one by one.
    pub fn improve(&mut self) {
        let mut trials = self.trials(CHANGES_PART);
        if trials == 0 || self.costs_nothing() {
            return;
        }
        let kinds = Kinds::of(self.planner.iteration);
        loop {
            let by_kind = self.avoid_costs(
                &mut trials,
                |interval| kinds.of_interval[interval.0 as usize],
                |&kind| kinds.members[kind].clone(),
            );
            let one_by_one = self.avoid_costs(&mut trials, |interval| interval, |&interval| vec![interval]);
            if !by_kind && !one_by_one {
                return;
            }
        }
    }

    /// Chooses which of the ranked values to encode. First it adds all of them or a part to the fastest candidate and to an empty
    /// one. Then it flips kinds of storages as long as that is faster.
    pub fn encode(&mut self, ranked: &[(IntervalId, Eviction)]) {
        // If every value that helps is dropped, these drops were tried already.
        let is_worth_it = ranked.iter().any(|(_, method)| *method != Eviction::Drop);
        if !is_worth_it || self.costs_nothing() {
            return;
        }
        let empty = self.candidate(self.base.clone());
        let fastest = self.best.as_ref().map(|best| best.candidate.clone());
        let starts: Vec<ScheduleCandidate> = fastest.into_iter().chain([empty]).collect();
        let mut trials = self.trials(ENCODINGS_PART).max(1);
        let free = ranked.iter().take_while(|(_, method)| *method == Eviction::Drop).count();
        for (part, start) in
            ENCODED_PARTS.iter().flat_map(|part| starts.iter().map(move |start| (part, start)))
        {
            let count = free + ((ranked.len() - free) as f64 * part).ceil() as usize;
            let released =
                ranked[..count].iter().map(|&(interval, method)| (interval, Constraint::Release(method)));
            let mut candidate = start.clone();
            candidate.constraints.extend(released);
            if trials > 0 {
                trials -= 1;
                self.attempt(candidate);
            }
        }
        while self.flip_encodings(&starts[0], ranked, &mut trials) {}
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
                if self.attempt(changed).is_some_and(|times| times.step_ns < before_ns) {
                    improved = true;
                    break;
                }
            }
        }
        improved
    }

    /// Tries a candidate and keeps it if it is the fastest so far. Returns its times, or `None` if it fails or equals the last.
    fn attempt(&mut self, candidate: ScheduleCandidate) -> Option<Times> {
        let schedule = Arc::new(candidate.schedule(&self.planner));
        if self.last.as_ref() == Some(&schedule) {
            return None;
        }
        self.last = Some(schedule.clone());
        let trial = self.planner.run(Some(&schedule))?;
        let times = Times { begins_ns: trial.begins_ns.clone(), step_ns: trial.step_ns };
        if self.best_ns().is_none_or(|best_ns| times.step_ns < best_ns) {
            self.best = Some(TriedCandidate { candidate, schedule, trial });
        }
        Some(times)
    }
}
