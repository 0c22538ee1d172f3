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
    /// When it leaves device memory.
    pub turn: Turn,
    /// It outlives the iteration: it is a source from now on.
    pub persists: bool,
}

/// An op of the iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduledOp {
    /// What it is like: [`Instruction::signature`](crate::engine::Instruction).
    pub signature: u64,
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
    /// How other storages are evicted, if that does not suffice; where none is named, by the policy's own rule.
    pub rule: Option<Weighed>,
    /// By which algorithms.
    pub algorithms: AlgorithmChoice,
    /// Where blocks are, if that was planned.
    pub layout: Option<Arc<Layout>>,
}

/// Ops that a place in the iteration is recognised by.
const GRAM: usize = 8;

/// Where in a schedule a program is.
#[derive(Debug)]
pub struct Place {
    /// The op that came last, if that is known.
    at: Option<u32>,
    /// The last signatures.
    recent: [u64; GRAM],
    /// Where in the iteration ops end so, where there is one such place only.
    places: HashMap<[u64; GRAM], Option<u32>>,
}

impl Place {
    /// A place that is found when the program is recognised; `before_first`: the next op is the schedule's first.
    pub fn new(schedule: &Schedule, before_first: bool) -> Self {
        let count = schedule.ops.len();
        let mut places = HashMap::with_capacity(count);
        for at in 0..count {
            let gram = std::array::from_fn(|back| schedule.ops[(at + count * GRAM - back) % count].signature);
            places.entry(gram).and_modify(|place| *place = None).or_insert(Some(at as u32));
        }
        let at = before_first.then(|| count.saturating_sub(1) as u32);
        Place { at, recent: [0; GRAM], places }
    }

    /// The next op of the program; returns which of the schedule's it is, if it is one.
    pub fn advance(&mut self, schedule: &Schedule, signature: u64) -> Option<u32> {
        self.recent.rotate_right(1);
        self.recent[0] = signature;
        let next = self.at.map(|at| (at + 1) % schedule.ops.len() as u32);
        self.at = next
            .filter(|&at| schedule.ops[at as usize].signature == signature)
            .or_else(|| self.places.get(&self.recent).copied().flatten());
        self.at
    }

    /// The op that came last.
    pub fn at(&self) -> Option<u32> {
        self.at
    }
}

impl Schedule {
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
        let op = |&signature| ScheduledOp { signature, first: IntervalId(0) };
        Schedule { ops: signatures.iter().map(op).collect(), ..Schedule::default() }
    }

    #[test]
    fn a_program_that_departs_is_recognised_again() {
        let signatures: Vec<u64> = (0..20).chain(5..12).collect();
        let schedule = schedule(&signatures);
        let mut place = Place::new(&schedule, true);
        for (at, &signature) in signatures.iter().enumerate() {
            assert_eq!(place.advance(&schedule, signature), Some(at as u32));
        }
        assert_eq!(place.advance(&schedule, 99), None);
        let found: Vec<_> = (0..10).map(|signature| place.advance(&schedule, signature)).collect();
        assert_eq!(found[..7], [None; 7]);
        assert_eq!(found[7..], [Some(7), Some(8), Some(9)]);
    }

    #[test]
    fn of_two_places_that_are_alike_neither_is_taken() {
        let signatures = [[1; 12], [2; 12]].concat();
        let schedule = schedule(&signatures);
        let mut place = Place::new(&schedule, false);
        let found: Vec<_> = signatures.iter().map(|&signature| place.advance(&schedule, signature)).collect();
        assert_eq!(found[..12], [None; 12]);
        assert_eq!(found[12], Some(12));
    }
}
