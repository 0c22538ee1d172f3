//! The position of a program in a schedule.

use hashbrown::HashMap;

use super::iteration::Schedule;

/// The number of ops by which a position in the iteration is recognized.
const RECOGNIZED_OPS: usize = 8;

/// The context hashes of the program's last ops, the newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecentOps([u64; RECOGNIZED_OPS]);

impl RecentOps {
    /// Notes that an op has run.
    pub fn push(&mut self, context: u64) {
        self.0.rotate_right(1);
        self.0[0] = context;
    }

    /// The context of the newest op.
    pub fn context(&self) -> u64 {
        self.0[0]
    }
}

/// The position of a program in a schedule.
#[derive(Debug)]
pub struct Cursor {
    /// The op of the schedule that ran last, if it is known.
    at: Option<u32>,
    /// The position after each sequence of ops. `None` marks sequences that occur more than once.
    positions: HashMap<RecentOps, Option<u32>>,
}

impl Cursor {
    /// A cursor that finds its position when the program is recognized. With `before_first`, the next op is the schedule's
    /// first.
    pub fn new(schedule: &Schedule, before_first: bool) -> Self {
        let count = schedule.ops.len();
        let mut positions = HashMap::with_capacity(count);
        for at in 0..count {
            let ops = std::array::from_fn(|back| {
                schedule.ops[(at + count * RECOGNIZED_OPS - back) % count].context
            });
            positions
                .entry(RecentOps(ops))
                .and_modify(|position| *position = None)
                .or_insert(Some(at as u32));
        }
        let at = before_first.then(|| count.saturating_sub(1) as u32);
        Cursor { at, positions }
    }

    /// Moves on if the op is the schedule's next, and returns its position. Otherwise the position is lost.
    pub fn advance(&mut self, schedule: &Schedule, signature: u64) -> Option<u32> {
        let next = self.at.map(|at| (at + 1) % schedule.ops.len() as u32);
        self.at = next.filter(|&at| schedule.ops[at as usize].signature == signature);
        self.at
    }

    /// Looks for the position at which these are the last ops.
    pub fn find(&mut self, recent: &RecentOps) -> Option<u32> {
        self.at = self.positions.get(recent).copied().flatten();
        self.at
    }

    /// The op of the schedule that ran last.
    pub fn at(&self) -> Option<u32> {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{IntervalId, ScheduledOp};

    fn schedule(signatures: &[u64]) -> Schedule {
        let op =
            |&signature| ScheduledOp { signature, context: signature, launch_ns: 0, first: IntervalId(0) };
        Schedule { ops: signatures.iter().map(op).collect(), ..Schedule::default() }
    }

    /// The position after each of these ops.
    fn positions(schedule: &Schedule, before_first: bool, signatures: &[u64]) -> Vec<Option<u32>> {
        let (mut cursor, mut recent) = (Cursor::new(schedule, before_first), RecentOps::default());
        let mut after = |&signature: &u64| {
            recent.push(signature);
            cursor.advance(schedule, signature).or_else(|| cursor.find(&recent))
        };
        signatures.iter().map(&mut after).collect()
    }

    #[test]
    fn a_program_that_departs_is_recognized_again() {
        let signatures: Vec<u64> = (0..20).chain(5..12).collect();
        let schedule = schedule(&signatures);
        let departing: Vec<u64> = signatures.iter().copied().chain([99]).chain(0..10).collect();
        let found = positions(&schedule, true, &departing);
        let (followed, departed) = found.split_at(signatures.len());
        assert!(followed.iter().enumerate().all(|(at, position)| *position == Some(at as u32)));
        assert_eq!(departed[..8], [None; 8]);
        assert_eq!(departed[8..], [Some(7), Some(8), Some(9)]);
    }

    #[test]
    fn of_two_places_that_are_alike_neither_is_taken() {
        let signatures = [[1; 12], [2; 12]].concat();
        let found = positions(&schedule(&signatures), false, &signatures);
        assert_eq!(found[..12], [None; 12]);
        assert_eq!(found[12], Some(12));
    }
}
