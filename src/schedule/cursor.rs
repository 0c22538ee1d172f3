//! Where in a schedule a program is.

use hashbrown::HashMap;

use super::iteration::Schedule;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{IntervalId, ScheduledOp};

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
}
