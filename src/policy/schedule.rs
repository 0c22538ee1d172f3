//! A plan of a whole iteration: what the pool is to do, and when, by the ops of the iteration.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Eviction, Layout, Turn, Weighed};

/// Names an interval: the time from one touch of a storage by an op to the next, wherever in the iteration that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IntervalId(pub u32);

/// The time from one touch of a storage to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Ops until the next touch; none if the storage is dropped before.
    pub next_ops: Option<u32>,
    /// How it leaves device memory, if that is decided: its bytes are copied to the host as soon as the interval begins, or
    /// dropped even where moving them is cheaper.
    pub how: Option<Eviction>,
    /// Its bytes are copied to the host as soon as the interval begins, for it to leave in a later one.
    pub copied: bool,
    /// When it leaves device memory.
    pub turn: Turn,
    /// Its bytes may be kept on the host.
    pub may_move: bool,
    /// It outlives the iteration: it is a source from now on.
    pub persists: bool,
}

/// An op of the iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduledOp {
    /// What it is like: [`Instruction::signature`](crate::engine::Instruction).
    pub signature: u64,
    /// What it is like where it is, as the [`Tracker`](crate::liveness::Tracker) tells.
    pub context: u64,
    /// The time that it was planned with.
    pub launch_ns: u64,
    /// The interval that begins at its first operand, inputs before outputs; the others follow.
    pub first: IntervalId,
}

/// Which of an engine's algorithms an op is run by, where one may be chosen: under [`Exactness::Fast`](crate::Exactness::Fast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlgorithmChoice {
    /// The fastest whose workspace fits what is free now.
    #[default]
    FastestThatFits,
    /// The fastest, whatever has to leave for its workspace.
    Fastest,
    /// The one of the least workspace.
    SmallestWorkspace,
}

/// The parts of the time of a copy that [`Schedule::reach`] counts.
const REACH_PARTS: u64 = 16;
/// The most that [`Schedule::reach`] is: more than one copy, since others wait for the lane, too.
pub const MOST_REACH: u64 = 16 * REACH_PARTS;

/// What is smaller than one of so many parts of the budget is fetched as early as if it were as large, where small storages are hurried
/// with.
const LEAST_PARTS: usize = 64;

/// How long before its use a storage is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// In sixteenths of the time that its copy takes. With 0 it is fetched when it is used.
    pub parts: u64,
    /// What is small is fetched as early as a larger storage would be: a copy of a few bytes waits behind large ones too.
    pub hurries_small: bool,
}

impl Reach {
    /// The longest.
    pub const MOST: Reach = Reach { parts: MOST_REACH, hurries_small: true };

    /// How long before its use a storage of so many bytes is fetched under a budget, if copies take so long.
    pub fn ahead_ns(self, bytes: usize, budget_bytes: usize, copy_ns: impl Fn(usize) -> u64) -> u64 {
        let least_bytes = if self.hurries_small { budget_bytes / LEAST_PARTS } else { 0 };
        self.parts * copy_ns(bytes.max(least_bytes)) / REACH_PARTS
    }
}

/// What a pool does in every iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    pub ops: Vec<ScheduledOp>,
    pub intervals: Vec<Interval>,
    /// What leaves device memory when an op needs room, in this order, and whether its bytes are dropped. By op.
    pub evictions: Vec<(u32, IntervalId, Eviction)>,
    /// What leaves as soon as an op has run. By op.
    pub releases: Vec<(u32, IntervalId, Eviction)>,
    /// What is fetched before an op. By op.
    pub fetches: Vec<(u32, IntervalId)>,
    /// How long before its use a storage is fetched that `fetches` does not name, if there is room by then.
    pub reach: Reach,
    /// How other storages are evicted, if that does not suffice; where none is named, by the policy's own rule.
    pub rule: Option<Weighed>,
    /// By which algorithms.
    pub algorithms: AlgorithmChoice,
    /// Where blocks are, if that was planned.
    pub layout: Option<Arc<Layout>>,
    /// The bandwidth of copies that it was planned with.
    pub link_bytes_per_second: f64,
}

/// Ops that a place in the iteration is recognised by.
const GRAM: usize = 8;

/// The last ops of a program, the newest first, by what they are like where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recent([u64; GRAM]);

impl Recent {
    /// An op has run.
    pub fn push(&mut self, context: u64) {
        self.0.rotate_right(1);
        self.0[0] = context;
    }

    /// The newest.
    pub fn context(&self) -> u64 {
        self.0[0]
    }
}

/// Where in a schedule a program is.
#[derive(Debug)]
pub struct Place {
    /// The op that came last, if that is known.
    at: Option<u32>,
    /// Where in the iteration ops end so, where there is one such place only.
    places: HashMap<Recent, Option<u32>>,
}

impl Place {
    /// A place that is found when the program is recognised; `before_first`: the next op is the schedule's first.
    pub fn new(schedule: &Schedule, before_first: bool) -> Self {
        let count = schedule.ops.len();
        let mut places = HashMap::with_capacity(count);
        for at in 0..count {
            let gram = std::array::from_fn(|back| schedule.ops[(at + count * GRAM - back) % count].context);
            places.entry(Recent(gram)).and_modify(|place| *place = None).or_insert(Some(at as u32));
        }
        let at = before_first.then(|| count.saturating_sub(1) as u32);
        Place { at, places }
    }

    /// An op comes: which of the schedule's it is, if it is the next. Otherwise the place is lost.
    pub fn advance(&mut self, schedule: &Schedule, signature: u64) -> Option<u32> {
        let next = self.at.map(|at| (at + 1) % schedule.ops.len() as u32);
        self.at = next.filter(|&at| schedule.ops[at as usize].signature == signature);
        self.at
    }

    /// Where in the schedule these are the last ops.
    pub fn find(&mut self, recent: &Recent) -> Option<u32> {
        self.at = self.places.get(recent).copied().flatten();
        self.at
    }

    /// The op that came last.
    pub fn at(&self) -> Option<u32> {
        self.at
    }
}

impl Schedule {
    /// The schedule was made with this bandwidth of copies in mind.
    pub fn made_with(self, link_bytes_per_second: f64) -> Self {
        Schedule { link_bytes_per_second, ..self }
    }

    /// The interval that begins at an operand of an op.
    pub fn interval(&self, op: u32, operand: usize) -> Option<IntervalId> {
        let first = self.ops[op as usize].first.0;
        let end = self.ops.get(op as usize + 1).map_or(self.intervals.len() as u32, |next| next.first.0);
        let id = first + operand as u32;
        (id < end).then_some(IntervalId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(signatures: &[u64]) -> Schedule {
        let op =
            |&signature| ScheduledOp { signature, context: signature, launch_ns: 0, first: IntervalId(0) };
        Schedule { ops: signatures.iter().map(op).collect(), ..Schedule::default() }
    }

    /// Where a program is after each of these ops.
    fn places(schedule: &Schedule, before_first: bool, signatures: &[u64]) -> Vec<Option<u32>> {
        let (mut place, mut recent) = (Place::new(schedule, before_first), Recent::default());
        let mut after = |&signature: &u64| {
            recent.push(signature);
            place.advance(schedule, signature).or_else(|| place.find(&recent))
        };
        signatures.iter().map(&mut after).collect()
    }

    #[test]
    fn a_program_that_departs_is_recognised_again() {
        let signatures: Vec<u64> = (0..20).chain(5..12).collect();
        let schedule = schedule(&signatures);
        let departing: Vec<u64> = signatures.iter().copied().chain([99]).chain(0..10).collect();
        let found = places(&schedule, true, &departing);
        let (followed, departed) = found.split_at(signatures.len());
        assert!(followed.iter().enumerate().all(|(at, place)| *place == Some(at as u32)));
        assert_eq!(departed[..8], [None; 8]);
        assert_eq!(departed[8..], [Some(7), Some(8), Some(9)]);
    }

    #[test]
    fn of_two_places_that_are_alike_neither_is_taken() {
        let signatures = [[1; 12], [2; 12]].concat();
        let found = places(&schedule(&signatures), false, &signatures);
        assert_eq!(found[..12], [None; 12]);
        assert_eq!(found[12], Some(12));
    }

    #[test]
    fn what_is_small_is_fetched_as_early_as_a_part_of_the_budget_would_be() {
        let ahead_ns = |bytes, hurries_small| {
            let reach = Reach { parts: 2 * REACH_PARTS, hurries_small };
            reach.ahead_ns(bytes, 6400, |bytes| bytes as u64)
        };
        assert_eq!([1, 100, 150].map(|bytes| ahead_ns(bytes, true)), [200, 200, 300]);
        assert_eq!([1, 100, 150].map(|bytes| ahead_ns(bytes, false)), [2, 200, 300]);
    }
}
