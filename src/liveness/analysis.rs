//! What follows from the ops and values of an iteration: the bytes that each op needs, phases and layers.

use super::dataflow::{Dataflow, Interval};
use super::{layers, phases};

impl Dataflow {
    /// Completes the data flow once every value and op has been added: intervals across iterations, bytes, phases,
    /// layers.
    pub fn finish(&mut self) {
        for value in 0..self.values.len() {
            let Some(successor) = self.values[value].successor else { continue };
            let last = self.values[successor].intervals.last().copied();
            if let (Some(last), Some(&first)) = (last, self.values[value].intervals.first()) {
                let Interval { from, reads, .. } = self.intervals[first];
                self.intervals[last].until = Some((from + self.ops.len(), reads));
            }
        }
        self.count_bytes();
        phases::find(self);
        layers::find(self);
    }

    fn count_bytes(&mut self) {
        let mut change = vec![0isize; self.ops.len() + 1];
        for value in &self.values {
            let begin = value
                .made_by
                .or(value.intervals.first().map(|&interval| self.intervals[interval].from))
                .unwrap_or(0);
            change[if value.persists { 0 } else { begin }] += value.size_bytes as isize;
            if let Some(freed_after) = value.freed_after {
                change[freed_after + 1] -= value.size_bytes as isize;
            }
        }
        let mut live_bytes = 0;
        for (op, change) in self.ops.iter_mut().zip(change) {
            live_bytes += change;
            op.need_bytes = (live_bytes + op.extra_bytes).max(0) as usize;
        }
    }
}
