//! Compares the times of ops and copies with the times that a plan was made with.

use crate::config::Planning;
use crate::engine::Engine;

/// The number of iterations before the first comparison.
const FIRST_ITERATIONS: u32 = 8;
/// The maximum deviation, as a part of the planned time. Beyond it, the plan is made anew.
const MAX_DEVIATION: f64 = 0.25;

/// The deviations since the plan was last compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    iterations: u32,
    /// The number of iterations until the next comparison.
    max_iterations: u32,
    planned_ns: u64,
    /// The sum of the deviations of measured times from planned times, in either direction.
    deviation_ns: u64,
}

impl Default for Drift {
    fn default() -> Self {
        Drift { iterations: 0, max_iterations: FIRST_ITERATIONS, planned_ns: 0, deviation_ns: 0 }
    }
}

impl Drift {
    /// Notes the planned and the measured time of an op.
    pub fn note(&mut self, planned_ns: u64, measured_ns: u64) {
        self.planned_ns += planned_ns;
        self.deviation_ns += planned_ns.abs_diff(measured_ns);
    }

    /// Notes that an iteration begins, with `link` as the measured bandwidth of copies relative to the planned one.
    /// Returns whether the plan should be made anew. After that, the next comparison takes twice as many iterations.
    pub fn is_replanning_due(&mut self, link: f64) -> bool {
        self.iterations += 1;
        if self.iterations <= self.max_iterations {
            return false;
        }
        let off = self.deviation_ns as f64 / self.planned_ns.max(1) as f64;
        let drifted = off > MAX_DEVIATION || link.max(link.recip()) > 1.0 + MAX_DEVIATION;
        let max_iterations = if drifted { 2 * self.max_iterations } else { self.max_iterations };
        *self = Drift { max_iterations, ..Drift::default() };
        drifted
    }

    /// The drift of a plan's new schedule. It begins without deviations and keeps the number of iterations.
    pub fn restarted(self) -> Self {
        Drift { max_iterations: self.max_iterations, ..Drift::default() }
    }
}

/// Whether plans use measured times. Engines with a virtual clock have none. Without background planning, the same
/// program should always get the same plan, and measured times differ from run to run.
pub fn measures(engine: &dyn Engine, planning: Planning) -> bool {
    planning == Planning::Background && engine.times().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of iterations until replanning is due, up to a hundred.
    fn iterations(drift: &mut Drift, measured_ns: [u64; 2], link: f64) -> Option<u32> {
        (0..100).find(|_| {
            measured_ns.iter().for_each(|&ns| drift.note(100, ns));
            drift.is_replanning_due(link)
        })
    }

    #[test]
    fn a_deviation_of_a_quarter_is_too_much() {
        assert_eq!(iterations(&mut Drift::default(), [100, 100], 1.0), None);
        assert_eq!(iterations(&mut Drift::default(), [120, 130], 1.2), None);
        assert_eq!(iterations(&mut Drift::default(), [100, 100], 1.3), Some(8));
        assert_eq!(iterations(&mut Drift::default(), [100, 100], 0.7), Some(8));
        let mut drift = Drift::default();
        assert_eq!(iterations(&mut drift, [60, 140], 1.0), Some(8), "the sum is the same");
        assert_eq!(iterations(&mut drift, [60, 140], 1.0), Some(16));
        drift = drift.restarted();
        assert_eq!(iterations(&mut drift, [60, 140], 1.0), Some(32));
    }
}
