//! Groups of similar intervals. Layers are similar, so that a search changes such intervals together.

use hashbrown::HashMap;

use super::iteration::Iteration;
use crate::schedule::IntervalId;

/// Intervals grouped by kind. Intervals of one kind begin at the same operand of equal ops and end at equal ops.
pub struct Kinds {
    /// The kind of each interval. Kinds are numbered by their first interval, since signatures differ from process to process.
    pub of_interval: Vec<usize>,
    pub members: Vec<Vec<IntervalId>>,
}

impl Kinds {
    pub fn of(iteration: &Iteration) -> Self {
        let ops = &iteration.ops;
        let mut kinds = Kinds { of_interval: Vec::new(), members: Vec::new() };
        let mut numbers = HashMap::new();
        for (index, interval) in iteration.intervals.iter().enumerate() {
            let (_, op) = iteration.of_interval[index];
            let op = op as usize;
            let next = interval.next_ops.map_or(0, |next| ops[(op + next as usize) % ops.len()].signature);
            let like = (ops[op].signature, index - ops[op].first.0 as usize, next);
            let kind = *numbers.entry(like).or_insert(kinds.members.len());
            if kind == kinds.members.len() {
                kinds.members.push(Vec::new());
            }
            kinds.of_interval.push(kind);
            kinds.members[kind].push(IntervalId(index as u32));
        }
        kinds
    }
}
