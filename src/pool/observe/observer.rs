//! What happened so far, and what of it users are told.

use std::cell::Cell;

use super::failures::Failures;
use crate::stats::Counters;
use crate::trace::Journal;

/// Sizes of storages and the ops that made them, the largest first.
pub type Residents = Vec<(usize, &'static str)>;

/// What happened so far.
#[derive(Debug, Default)]
pub struct Observer {
    pub journal: Journal,
    pub counters: Counters,
    /// Ops run so far: the time that recency is measured in.
    pub clock: u64,
    /// Predicted time of all ops so far, those run again included.
    pub computed_ns: u64,
    /// Storages that were candidates for eviction so far, each as often as it was.
    pub candidates_scanned: Cell<u64>,
    /// Launches that failed after their submission.
    pub failures: Failures,
    pub usage: Usage,
    /// What was resident after the op that the settings name.
    pub snapshot: Residents,
}

/// How much device memory was in use.
#[derive(Debug, Default)]
pub struct Usage {
    /// The most bytes at once, and the op at which that was.
    pub peak: (usize, u64),
    /// Bytes in use times how long, while ops run, and how long that is.
    pub use_over_time: (u128, u128),
    /// The largest need of one op so far.
    pub largest_op_bytes: usize,
    /// Pages mapped before totals were last counted anew.
    pub mapped_before: u64,
}

impl Observer {
    /// Nothing happened yet.
    pub fn new(journal: Journal) -> Self {
        Observer { journal, ..Observer::default() }
    }

    /// An op needs so much device memory at once.
    pub fn needed(&mut self, bytes: usize) {
        self.usage.largest_op_bytes = self.usage.largest_op_bytes.max(bytes);
    }

    /// So many storages more were candidates for eviction.
    pub fn scanned(&self, candidates: u64) {
        self.candidates_scanned.set(self.candidates_scanned.get() + candidates);
    }
}
