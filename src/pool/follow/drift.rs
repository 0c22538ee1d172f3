//! Whether ops and copies still take the times that a plan was made with.

use crate::config::Planning;
use crate::engine::Engine;

/// Iterations after which that is looked at, to begin with.
const FIRST_ITERATIONS: u32 = 8;
/// Times that are off by more than this part, together, are others.
const MOST_OFF: f64 = 0.25;

/// What was found since a plan was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    iterations: u32,
    /// How many there are to be.
    most_iterations: u32,
    planned_ns: u64,
    /// By how much the measured times were more or less.
    off_ns: u64,
}

impl Default for Drift {
    fn default() -> Self {
        Drift { iterations: 0, most_iterations: FIRST_ITERATIONS, planned_ns: 0, off_ns: 0 }
    }
}

impl Drift {
    /// An op that is planned to take one time takes another.
    pub fn note(&mut self, planned_ns: u64, measured_ns: u64) {
        self.planned_ns += planned_ns;
        self.off_ns += planned_ns.abs_diff(measured_ns);
    }

    /// An iteration begins, with the link so many times as fast as planned. Whether it is time to plan anew; then it is only
    /// looked at again after twice as many iterations.
    pub fn is_time(&mut self, link: f64) -> bool {
        self.iterations += 1;
        if self.iterations <= self.most_iterations {
            return false;
        }
        let off = self.off_ns as f64 / self.planned_ns.max(1) as f64;
        let drifted = off > MOST_OFF || link.max(link.recip()) > 1.0 + MOST_OFF;
        let most_iterations = if drifted { 2 * self.most_iterations } else { self.most_iterations };
        *self = Drift { most_iterations, ..Drift::default() };
        drifted
    }

    /// For a plan that takes the place of one that was looked at like this.
    pub fn anew(self) -> Self {
        Drift { most_iterations: self.most_iterations, ..Drift::default() }
    }
}

/// Whether plans go by measured times: where the engine has no clock of its own, and where it is a matter of luck already when
/// a plan is there.
pub fn measures(engine: &dyn Engine, planning: Planning) -> bool {
    planning == Planning::Background && engine.times().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many iterations it is time, within a hundred.
    fn iterations(drift: &mut Drift, measured_ns: [u64; 2], link: f64) -> Option<u32> {
        (0..100).find(|_| {
            measured_ns.iter().for_each(|&ns| drift.note(100, ns));
            drift.is_time(link)
        })
    }

    #[test]
    fn a_quarter_is_too_much() {
        assert_eq!(iterations(&mut Drift::default(), [100, 100], 1.0), None);
        assert_eq!(iterations(&mut Drift::default(), [120, 130], 1.2), None);
        assert_eq!(iterations(&mut Drift::default(), [100, 100], 1.3), Some(8));
        assert_eq!(iterations(&mut Drift::default(), [100, 100], 0.7), Some(8));
        let mut drift = Drift::default();
        assert_eq!(iterations(&mut drift, [60, 140], 1.0), Some(8), "the sum is the same");
        assert_eq!(iterations(&mut drift, [60, 140], 1.0), Some(16));
        drift = drift.anew();
        assert_eq!(iterations(&mut drift, [60, 140], 1.0), Some(32));
    }
}
