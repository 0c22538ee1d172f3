//! What is tried: rules, and what is chosen with all of an iteration in view; then changes that spare what a schedule
//! recomputes, and copies that its ops wait for.

use std::cell::OnceCell;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::annealing::{Allowed, Course, anneal, courses};
use super::bookings::{Booking, Timeline};
use super::choices::{Choices, Model};
use super::evaluation::Evaluation;
use super::kinds::Kinds;
use super::relaxation::relax;
use super::trial::Trial;
use super::{Planner, Settled, scheduled};
use crate::schedule::{Eviction, IntervalId, MOST_REACH, Reach, Schedule, Turn, Weighed};

/// Rules that are tried: powers of the time since the last use, and of that until the next; and the policy's own, which spares what is
/// small.
const RULES: [Option<Weighed>; 8] = [
    weighed(0.0, 0.5),
    weighed(0.5, 0.5),
    weighed(0.0, 0.25),
    weighed(0.0, 1.0),
    weighed(0.0, 2.0),
    weighed(1.0, 0.5),
    weighed(1.0, 0.0),
    None,
];

const fn weighed(idle: f64, until_next: f64) -> Option<Weighed> {
    Some(Weighed { idle, until_next })
}

/// Bookings that are tried: what is recomputed takes memory too, memory is in pieces, and copies that are not booked need
/// lanes.
const BOOKS: [Books; 10] = [
    books(1.0, 1.0),
    books(0.99, 1.0),
    books(0.97, 1.0),
    books(0.94, 1.0),
    books(0.9, 1.0),
    books(0.8, 1.0),
    books(1.0, 0.8),
    books(1.0, 0.6),
    books(1.0, 0.4),
    books(1.0, 0.2),
];

const fn books(budget: f64, lanes: f64) -> Books {
    Books { budget, lanes }
}

/// How far ahead is fetched what is not booked, besides the most: what is fetched too early takes the room of what is used before.
const REACHES: [u64; 6] =
    [MOST_REACH / 2, MOST_REACH / 4, MOST_REACH / 8, 3 * MOST_REACH / 32, MOST_REACH / 16, 0];

/// Parts of the budget that choices are made for: what is recomputed takes memory too, and ops do not take the same time when
/// others are run between.
const PARTS: [f64; 3] = [1.0, 0.97, 0.94];

/// Ops that are run for improvements, at the most.
const MOST_OPS: usize = 1_200_000;
/// Ops that are run for rules, and for bookings, at the most.
const MOST_START_OPS: usize = 1_500_000;
/// Schedules that changes begin from, at the most.
const MOST_STARTS: usize = 20;
/// Ops that are run to weigh what is encoded, at the most.
const MOST_ENCODING_OPS: usize = 400_000;
/// Parts of what can be encoded that are tried first, of those that save the most for their time.
const ENCODED_PARTS: [f64; 6] = [1.0, 0.75, 0.5, 0.25, 0.125, 0.0625];

/// What a schedule is made from.
#[derive(Clone, Debug)]
struct Draft {
    /// A schedule that does something already, and has its own rule.
    base: Option<Arc<Schedule>>,
    /// Whether what the iteration before left leaves at once: see [`Planner::schedule`].
    clears: bool,
    rule: Option<Weighed>,
    /// How far ahead is fetched what is not booked.
    reach: Reach,
    /// Whether copies are booked that nothing is wished of.
    books: Option<Books>,
    /// What is booked leaves as soon as its copy is made: a program that is not full all the time finds addresses more easily. What
    /// something is to be made from does better to stay.
    at_once: bool,
    /// By which copies are booked.
    timeline: Arc<Timeline>,
    wishes: Wishes,
}

type Wishes = HashMap<IntervalId, Wish>;

/// What is wished with all of an iteration in view, for each part of the budget, and the time that this takes.
pub type Chosen = OnceCell<Vec<(Wishes, Arc<Timeline>)>>;

/// How much is booked.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Books {
    /// The part of the budget that the program is to fit.
    budget: f64,
    /// The part of the time in which a lane may be at work.
    lanes: f64,
}

/// What to do with a storage in an interval, if it can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Its copies are booked.
    Book(Booking),
    /// It is recomputed, and leaves in its turn.
    Drop(Turn),
    Leave(Turn),
    /// It leaves as soon as the interval begins, above all encoded.
    Release(Eviction),
}

/// Before all else, and after all that is wished.
const FIRST: Booking = Booking { rank: 0, visited: None };
const LAST: Booking = Booking { rank: u32::MAX, visited: None };

/// What is tried of a storage that takes long to recompute, in this order; of one whose copies others wait for.
const SPARE_OPS: [Wish; 4] =
    [Wish::Book(FIRST), Wish::Leave(Turn::Last), Wish::Leave(Turn::First), Wish::Drop(Turn::Any)];
const SPARE_COPIES: [Wish; 4] =
    [Wish::Drop(Turn::Any), Wish::Leave(Turn::Last), Wish::Book(FIRST), Wish::Leave(Turn::First)];

/// A draft that was tried.
struct Tried {
    draft: Draft,
    schedule: Arc<Schedule>,
    trial: Trial,
}

/// A search for the fastest schedule of an iteration.
pub struct Search<'a> {
    planner: Planner<'a>,
    /// Of an iteration in which nothing is evicted.
    timeline: Arc<Timeline>,
    /// The same wherever addresses end.
    chosen: &'a Chosen,
    best: Option<Tried>,
    /// Drafts that changes may begin from, and how long they take.
    starts: Vec<(u64, Draft)>,
    /// What changes led to, from each.
    ends: Vec<Tried>,
    /// What was tried last.
    last: Option<Arc<Schedule>>,
    /// While encodings are weighed: what was tried, and how long it took.
    contenders: Option<Vec<(u64, Arc<Schedule>)>>,
}

/// Of schedules that encodings are exchanged in, those that are run for longer afterwards.
const MOST_CONTENDERS: usize = 4;

impl<'a> Search<'a> {
    pub fn new(planner: Planner<'a>, chosen: &'a Chosen) -> Self {
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
    pub fn rest(&mut self, rests: u32) {
        self.planner.rests = rests;
    }

    /// The fastest schedules so far, the fastest first, and how they went.
    pub fn tried(&self) -> Vec<(&Arc<Schedule>, &Trial)> {
        let mut tried: Vec<&Tried> = self.best.iter().chain(&self.ends).collect();
        tried.sort_by_key(|tried| tried.trial.step_ns);
        tried.into_iter().map(|tried| (&tried.schedule, &tried.trial)).collect()
    }

    /// The decisions that the fastest led to, as a script, and its time.
    pub fn best(&self) -> Option<(Schedule, u64)> {
        self.best.as_ref().map(|best| (scheduled(&best.schedule, &best.trial), best.trial.step_ns))
    }

    /// Whether a schedule takes almost the time of the fastest so far, or less; no more, where that costs nothing.
    pub fn is_met_by(&self, settled: Option<&Settled>) -> bool {
        let (Some(settled), Some(best_ns)) = (settled, self.best_ns()) else { return settled.is_some() };
        let is_as_fast = || self.planner.is_as_fast(settled.step_ns, best_ns);
        if self.costs_nothing() { settled.step_ns <= best_ns } else { is_as_fast() }
    }

    /// Whether nothing is made again in the fastest, and no op waits.
    pub fn costs_nothing(&self) -> bool {
        let costs_nothing = |best: &Tried| best.trial.remade.is_empty() && best.trial.awaited.is_empty();
        self.best.as_ref().is_some_and(costs_nothing)
    }

    /// Tries one rule, with copies booked if there may be any.
    pub fn try_one(&mut self) {
        self.attempt_start(RULES[0], self.planner.settings.ways.offload.then_some(BOOKS[0]));
    }

    /// Tries every rule, with copies booked and without.
    pub fn try_rules(&mut self) {
        for &rule in self.first(&RULES) {
            self.attempt_start(rule, None);
        }
        self.try_clearing();
        if self.best.as_ref().is_some_and(|best| !best.draft.clears) {
            self.first(&RULES).iter().for_each(|&rule| self.attempt_start(rule, None));
        }
        self.try_reaches();
        if self.planner.settings.ways.offload {
            self.try_books();
        }
    }

    /// The fastest draft, where storages may be copied.
    fn fastest_with_copies(&self) -> Option<Draft> {
        let best = self.best.as_ref().filter(|_| self.planner.settings.ways.offload);
        best.map(|best| best.draft.clone())
    }

    /// Tries the fastest draft with what the iteration before left leaving at once if it stays, or the other way round, where it may
    /// have to be copied.
    fn try_clearing(&mut self) {
        let Some(draft) = self.fastest_with_copies() else { return };
        self.attempt_draft(Draft { clears: !draft.clears, ..draft });
    }

    /// Tries how far ahead the fastest draft best fetches what it does not book, and before and after whether it hurries with what is
    /// small.
    fn try_reaches(&mut self) {
        self.try_hurry();
        let Some(draft) = self.fastest_with_copies() else { return };
        for &parts in self.first(&REACHES) {
            let reach = Reach { parts, ..draft.reach };
            self.attempt_draft(Draft { reach, ..draft.clone() });
        }
        self.try_hurry();
    }

    fn try_hurry(&mut self) {
        let Some(draft) = self.fastest_with_copies() else { return };
        let reach = Reach { hurries_small: !draft.reach.hurries_small, ..draft.reach };
        self.attempt_draft(Draft { reach, ..draft });
    }

    fn try_books(&mut self) {
        let Some(rule) = self.best.as_ref().map(|best| best.draft.rule) else { return };
        for &books in self.first(&BOOKS) {
            self.attempt_start(rule, Some(books));
        }
        if let Some(books) = self.best.as_ref().and_then(|best| best.draft.books) {
            for &rule in self.first(&RULES) {
                self.attempt_start(rule, Some(books));
            }
        }
    }

    /// As many as there is time to try; one at the least.
    pub fn first<'b, T>(&self, all: &'b [T]) -> &'b [T] {
        &all[..self.planner.trials_in(MOST_START_OPS).max(1).min(all.len())]
    }

    /// Tries what is chosen with all of an iteration in view.
    pub fn try_choices(&mut self) {
        let best = self.best.as_ref().map(|best| &best.draft);
        let (rule, reach) = best.map_or((RULES[0], Reach::MOST), |best| (best.rule, best.reach));
        let most = self.planner.trials_in(MOST_START_OPS).max(1);
        let chosen = self.chosen.get_or_init(|| self.choose(most));
        let drafts = chosen.iter().flat_map(|chosen| [true, false].map(|at_once| (chosen, at_once)));
        for ((wishes, timeline), at_once) in drafts.take(most) {
            let (timeline, wishes) = (timeline.clone(), wishes.clone());
            let (base, clears) = (None, true);
            self.attempt_draft(Draft { base, clears, rule, reach, books: None, at_once, timeline, wishes });
        }
        self.try_clearing();
        self.try_reaches();
    }

    /// What is wished for parts of the budget, at most so often; and where both ways are allowed, if what is moved may come back for what is
    /// made from it.
    fn choose(&self, most: usize) -> Vec<(Wishes, Arc<Timeline>)> {
        let Planner { iteration, settings, .. } = self.planner;
        let model = Model::new(iteration, &self.timeline, settings.ways);
        let ruled = self.best.as_ref();
        let ruled = ruled.map(|best| Choices::of_decisions(&model, &best.trial.decisions));
        let parts = PARTS.map(|part| {
            let budget_bytes = (settings.budget_bytes as f64 * part) as usize;
            let relaxed = self.planner.at_leisure(|| relax(&model, budget_bytes));
            (budget_bytes, [relaxed].into_iter().chain(ruled.clone()).collect::<Vec<Choices>>())
        });
        let both_ways = settings.ways.offload && settings.ways.recompute;
        let visits = if both_ways { &[false, true][..] } else { &[false] };
        let mut chosen = Vec::new();
        for course in courses(&model, settings.budget_bytes) {
            for (budget_bytes, starts) in &parts {
                for &visit in visits {
                    if chosen.len() < most {
                        chosen.extend(self.chosen_from(starts, &model, *budget_bytes, visit, course));
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
        starts: &[Choices],
        model: &Model<'_>,
        budget_bytes: usize,
        visit: bool,
        course: Course,
    ) -> [(Wishes, Arc<Timeline>); 2] {
        let allowed = Allowed { visit, drop_again: false };
        let energy_ns = |start: &&Choices| {
            allowed.energy_ns(model, Evaluation::new(model, start, budget_bytes).outcome())
        };
        let start = starts.iter().min_by(|one, other| energy_ns(one).total_cmp(&energy_ns(other)));
        let start = start.expect("there is at least one").clone();
        let anneal = |model: &Model<'_>, start: Choices, allowed: Allowed| {
            self.planner.at_leisure(|| anneal(model, start, budget_bytes, allowed, course))
        };
        let first = anneal(model, start, allowed);
        let pauses_ns = Evaluation::new(model, &first, budget_bytes).remake_ns();
        let paused = Arc::new(self.timeline.with_pauses(&pauses_ns));
        let model = Model::new(self.planner.iteration, &paused, self.planner.settings.ways);
        let start = first.clone().booked_anew(&model);
        let then = anneal(&model, start, Allowed { visit, drop_again: true });
        [(wishes(&first), self.timeline.clone()), (wishes(&then), paused)]
    }

    fn attempt_start(&mut self, rule: Option<Weighed>, books: Option<Books>) {
        let best = self.best.as_ref().map(|best| &best.draft);
        let (clears, reach) = best.map_or((true, Reach::MOST), |best| (best.clears, best.reach));
        let timeline = self.timeline.clone();
        self.attempt_draft(Draft {
            base: None,
            clears,
            rule,
            reach,
            books,
            at_once: false,
            timeline,
            wishes: HashMap::new(),
        });
    }

    fn attempt_draft(&mut self, draft: Draft) {
        let step_ns = self.attempt(draft.clone());
        self.starts.extend(step_ns.map(|step_ns| (step_ns, draft)));
    }

    /// Whether there is time for changes.
    pub fn may_improve(&self) -> bool {
        self.planner.trials_in(MOST_OPS) > 0
    }

    /// Tries changes, of the fastest schedule first, then of others: what is best to change is not always best at first.
    /// Whether that was of any use.
    pub fn improve(&mut self) -> bool {
        let before_ns = self.best_ns();
        let mut trials = self.planner.trials_in(MOST_OPS);
        let kinds = Kinds::of(self.planner.iteration);
        let mut starts = std::mem::take(&mut self.starts);
        starts.sort_by_key(|&(step_ns, _)| step_ns);
        starts.dedup_by_key(|&mut (step_ns, _)| step_ns);
        for (_, start) in starts.into_iter().take(MOST_STARTS.min(trials)) {
            let champion = self.best.take();
            self.last = None;
            self.attempt(start);
            self.climb(&kinds, &mut trials);
            let mut tried: Vec<Tried> = self.best.take().into_iter().chain(champion).collect();
            tried.sort_by_key(|tried| tried.trial.step_ns);
            let mut tried = tried.into_iter();
            self.best = tried.next();
            self.ends.extend(tried);
        }
        self.best_ns() < before_ns
    }

    /// Weighs what can be encoded, by what it is worth: first all and parts of it, beside what the fastest draft does, what was `found`
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
        let clears = self.best.as_ref().is_none_or(|best| best.draft.clears);
        let plain = Arc::new(self.planner.schedule(clears));
        // Addresses that were planned are for other blocks.
        let found = found.map(|found| Arc::new(Schedule { layout: None, ..(**found).clone() }));
        let based = [plain].into_iter().chain(found).map(|base| Draft {
            base: Some(base),
            clears,
            rule: RULES[0],
            reach: Reach::MOST,
            books: None,
            at_once: false,
            timeline: self.timeline.clone(),
            wishes: HashMap::new(),
        });
        let fastest = self.best.as_ref().map(|best| best.draft.clone());
        let starts: Vec<Draft> = fastest.into_iter().chain(based).collect();
        let free = ranked.iter().take_while(|(_, how)| *how == Eviction::Drop).count();
        for part in self.first(&ENCODED_PARTS) {
            let count = free + ((ranked.len() - free) as f64 * part).ceil() as usize;
            for start in &starts {
                let released = ranked[..count].iter().map(|&(interval, how)| (interval, Wish::Release(how)));
                let mut draft = start.clone();
                draft.wishes.extend(released);
                self.attempt(draft);
            }
        }
        let first = self.contenders.replace(Vec::new());
        let mut trials = self.planner.trials_in(MOST_ENCODING_OPS);
        while self.exchange(&starts[0], ranked, &mut trials) {}
        let mut exchanged = self.contenders.take().unwrap_or_default();
        exchanged.sort_by_key(|&(step_ns, _)| step_ns);
        exchanged.truncate(MOST_CONTENDERS);
        first.into_iter().flatten().chain(exchanged).map(|(_, schedule)| schedule).collect()
    }

    /// Encodes what is not, kind by kind and then one by one, and has what is do as in another draft; keeps what is faster.
    fn exchange(&mut self, other: &Draft, ranked: &[(IntervalId, Eviction)], trials: &mut usize) -> bool {
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
            let Some(Tried { draft, .. }) = &self.best else { return false };
            if *trials == 0 {
                return false;
            }
            *trials -= 1;
            let mut draft = draft.clone();
            let is_released = |&(interval, how)| draft.wishes.get(&interval) == Some(&Wish::Release(how));
            let all_are = group.iter().all(is_released);
            for (interval, how) in group {
                match (all_are, other.wishes.get(&interval)) {
                    (false, _) => draft.wishes.insert(interval, Wish::Release(how)),
                    (true, Some(&wish)) => draft.wishes.insert(interval, wish),
                    (true, None) => draft.wishes.remove(&interval),
                };
            }
            self.attempt(draft);
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
            && let Some(Tried { draft, trial, .. }) = &self.best
        {
            let mut costs_ns: HashMap<K, [u64; 2]> = HashMap::new();
            for (way, costs) in [&trial.remade, &trial.awaited].into_iter().enumerate() {
                for &(interval, cost_ns) in costs {
                    costs_ns.entry(group(interval)).or_default()[way] += cost_ns;
                }
            }
            let untried = costs_ns.into_iter().filter(|(key, _)| !tried.contains(key));
            let dearest = untried.max_by_key(|&(key, [remade_ns, awaited_ns])| (remade_ns + awaited_ns, key));
            let Some((key, [remade_ns, awaited_ns])) = dearest else { break };
            tried.insert(key);
            let wishes = if remade_ns >= awaited_ns { SPARE_OPS } else { SPARE_COPIES };
            let (draft, before_ns, members) = (draft.clone(), trial.step_ns, members(&key));
            for wish in wishes {
                let possible = match wish {
                    Wish::Book(_) => self.planner.settings.ways.offload,
                    Wish::Drop(_) => self.planner.settings.ways.recompute,
                    Wish::Leave(_) | Wish::Release(_) => true,
                };
                if !possible || *trials == 0 {
                    continue;
                }
                *trials -= 1;
                let mut changed = draft.clone();
                changed.wishes.extend(members.iter().map(|&member| (member, wish)));
                if self.attempt(changed).is_some_and(|step_ns| step_ns < before_ns) {
                    improved = true;
                    break;
                }
            }
        }
        improved
    }

    /// Tries a draft, and keeps it if it is the fastest so far. How long it takes; `None` if it fails, or is like the last.
    fn attempt(&mut self, draft: Draft) -> Option<u64> {
        let schedule = Arc::new(self.schedule(&draft));
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
            self.best = Some(Tried { draft, schedule, trial });
        }
        Some(step_ns)
    }

    fn schedule(&self, draft: &Draft) -> Schedule {
        let Draft { clears, rule, reach, .. } = *draft;
        let ruled = || Schedule { rule, reach, ..self.planner.schedule(clears) };
        let mut schedule = draft.base.as_ref().map_or_else(ruled, |base| (**base).clone());
        for (&interval, &wish) in &draft.wishes {
            let at = interval.0 as usize;
            let interval = &mut schedule.intervals[at];
            match wish {
                Wish::Leave(turn) => interval.turn = turn,
                Wish::Drop(turn) => (interval.how, interval.turn) = (Some(Eviction::Drop), turn),
                Wish::Release(how) => {
                    let (_, op) = self.planner.iteration.of_interval[at];
                    schedule.releases.push((op, IntervalId(at as u32), how));
                }
                Wish::Book(_) => {}
            }
        }
        let wish = |interval| draft.wishes.get(&interval).copied();
        let is_booked = |wish: &Wish| matches!(wish, Wish::Book(_));
        if draft.books.is_some() || draft.wishes.values().any(is_booked) {
            let books = draft.books.unwrap_or(books(1.0, 1.0));
            let budget_bytes = (self.planner.settings.budget_bytes as f64 * books.budget) as usize;
            let booking = |interval| match wish(interval) {
                Some(Wish::Book(booking)) => Some(booking),
                None => draft.books.map(|_| LAST),
                Some(_) => None,
            };
            draft.timeline.book(&mut schedule, budget_bytes, books.lanes, draft.at_once, booking);
        }
        schedule.releases.sort_unstable_by_key(|&(op, interval, _)| (op, interval));
        schedule
    }
}

fn wishes(choices: &Choices) -> Wishes {
    let (dropped, moved) = choices.leaving();
    let dropped = dropped.into_iter().map(|interval| (interval, Wish::Drop(Turn::First)));
    let moved = moved.into_iter().zip(1..);
    let moved = moved.map(|((interval, visited), rank)| (interval, Wish::Book(Booking { rank, visited })));
    dropped.chain(moved).collect()
}
