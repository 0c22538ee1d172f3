//! What is tried: rules, then changes that spare what a schedule recomputes.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::bookings::Timeline;
use super::iteration::Iteration;
use super::trial::{self, Trial};
use super::{Planner, scheduled};
use crate::policy::{IntervalId, Schedule, Turn, Weighed};

/// Powers that are tried: of the time since the last use, of that until the next.
const RULES: [Weighed; 7] = [
    Weighed { idle: 0.0, until_next: 0.5 },
    Weighed { idle: 0.5, until_next: 0.5 },
    Weighed { idle: 0.0, until_next: 0.25 },
    Weighed { idle: 0.0, until_next: 1.0 },
    Weighed { idle: 0.0, until_next: 2.0 },
    Weighed { idle: 1.0, until_next: 0.5 },
    Weighed { idle: 1.0, until_next: 0.0 },
];

/// Parts of the budget that are tried: what is recomputed takes memory too, and memory is in pieces.
const PARTS: [f64; 6] = [1.0, 0.99, 0.97, 0.94, 0.9, 0.8];

/// Ops that are run for improvements, at the most.
const MOST_OPS: usize = 600_000;

/// What a schedule is made from.
#[derive(Clone, Debug)]
struct Draft {
    rule: Weighed,
    /// Whether copies are booked, and the part of the budget that the program is to fit with them.
    books: Option<f64>,
    wishes: HashMap<IntervalId, Wish>,
}

/// What to do with a storage in an interval, if it can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Its copies are booked before others.
    Book,
    Leave(Turn),
}

/// A search for the fastest schedule of an iteration.
pub struct Search<'a> {
    planner: Planner<'a>,
    /// Where copies are allowed.
    timeline: Option<Timeline>,
    best: Option<(Draft, Arc<Schedule>, Trial)>,
}

/// One that takes no more times as long is as fast.
const AS_FAST: f64 = 1.002;

impl<'a> Search<'a> {
    pub fn new(planner: Planner<'a>) -> Self {
        let ways = planner.settings.ways;
        let props = &planner.profile.props;
        let timeline = ways.offload.then(|| Timeline::new(planner.iteration, props, ways.recompute));
        Search { planner, timeline, best: None }
    }

    /// The fastest schedule so far, and how it went.
    pub fn tried(&self) -> Option<(&Arc<Schedule>, &Trial)> {
        self.best.as_ref().map(|(_, schedule, trial)| (schedule, trial))
    }

    /// The decisions that it led to, as a script, and its time.
    pub fn best(&self) -> Option<(Schedule, u64)> {
        self.tried().map(|(schedule, trial)| (scheduled(schedule, trial), trial.step_ns))
    }

    /// Whether a time is almost that of the fastest schedule so far, or less.
    pub fn is_as_fast(&self, step_ns: u64) -> bool {
        self.tried().is_none_or(|(_, best)| step_ns as f64 <= best.step_ns as f64 * AS_FAST)
    }

    /// Tries every rule, with copies booked and without.
    pub fn try_rules(&mut self) {
        for rule in RULES {
            self.attempt(Draft { rule, books: None, wishes: HashMap::new() });
        }
        let Some(rule) = self.best.as_ref().filter(|_| self.timeline.is_some()).map(|(draft, ..)| draft.rule)
        else {
            return;
        };
        for part in PARTS {
            self.attempt(Draft { rule, books: Some(part), wishes: HashMap::new() });
        }
        if let Some((Draft { books: Some(part), .. }, ..)) = self.best {
            for rule in RULES {
                self.attempt(Draft { rule, books: Some(part), wishes: HashMap::new() });
            }
        }
    }

    /// Tries to spare what takes longest to make again: kinds of storages together, since layers are alike, then one by one.
    /// Whether that was of any use.
    pub fn improve(&mut self) -> bool {
        let mut trials = MOST_OPS / (trial::ITERATIONS * self.planner.iteration.ops.len().max(1));
        let kinds = Kinds::of(self.planner.iteration);
        let mut improved = false;
        loop {
            let by_kind = self.spare(
                &mut trials,
                |interval| kinds.of_interval[interval.0 as usize],
                |&kind| kinds.members[&kind].clone(),
            );
            let one_by_one = self.spare(&mut trials, |interval| interval, |&interval| vec![interval]);
            if !by_kind && !one_by_one {
                return improved;
            }
            improved = true;
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
            && let Some((draft, _, trial)) = &self.best
        {
            let mut costs_ns: HashMap<K, u64> = HashMap::new();
            for &(interval, cost_ns) in &trial.remade {
                *costs_ns.entry(group(interval)).or_default() += cost_ns;
            }
            let untried = costs_ns.into_iter().filter(|(key, _)| !tried.contains(key));
            let Some((key, _)) = untried.max_by_key(|&(key, cost_ns)| (cost_ns, key)) else { break };
            tried.insert(key);
            let (draft, members) = (draft.clone(), members(&key));
            for wish in [Wish::Book, Wish::Leave(Turn::Last), Wish::Leave(Turn::First)] {
                if wish == Wish::Book && draft.books.is_none() || *trials == 0 {
                    continue;
                }
                *trials -= 1;
                let mut changed = draft.clone();
                changed.wishes.extend(members.iter().map(|&member| (member, wish)));
                if self.attempt(changed) {
                    improved = true;
                    break;
                }
            }
        }
        improved
    }

    /// Tries a draft, and keeps it if it is the fastest so far.
    fn attempt(&mut self, draft: Draft) -> bool {
        let schedule = Arc::new(self.schedule(&draft));
        let Some(trial) = self.planner.run(Some(&schedule)) else { return false };
        let faster = self.best.as_ref().is_none_or(|(_, _, best)| trial.step_ns < best.step_ns);
        if faster {
            self.best = Some((draft, schedule, trial));
        }
        faster
    }

    fn schedule(&self, draft: &Draft) -> Schedule {
        let mut schedule = Schedule { rule: Some(draft.rule), ..self.planner.iteration.schedule() };
        for (&interval, &wish) in &draft.wishes {
            if let Wish::Leave(turn) = wish {
                schedule.intervals[interval.0 as usize].turn = turn;
            }
        }
        if let Some((timeline, part)) = self.timeline.as_ref().zip(draft.books) {
            let budget_bytes = (self.planner.settings.budget_bytes as f64 * part) as usize;
            let first = |interval| draft.wishes.get(&interval) == Some(&Wish::Book);
            timeline.book(&mut schedule, budget_bytes, first);
        }
        schedule
    }
}

/// Which intervals are alike: those that begin at the same operand of like ops, and end at like ops.
struct Kinds {
    of_interval: Vec<(u64, usize, u64)>,
    members: HashMap<(u64, usize, u64), Vec<IntervalId>>,
}

impl Kinds {
    fn of(iteration: &Iteration) -> Self {
        let ops = &iteration.ops;
        let mut kinds = Kinds { of_interval: Vec::new(), members: HashMap::new() };
        for (index, interval) in iteration.intervals.iter().enumerate() {
            let (_, op) = iteration.of_interval[index];
            let op = op as usize;
            let next = interval.next_ops.map_or(0, |next| ops[(op + next as usize) % ops.len()].signature);
            let kind = (ops[op].signature, index - ops[op].first.0 as usize, next);
            kinds.of_interval.push(kind);
            kinds.members.entry(kind).or_default().push(IntervalId(index as u32));
        }
        kinds
    }
}
