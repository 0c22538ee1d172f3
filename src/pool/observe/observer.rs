//! What happened so far.

use std::cell::Cell;

use super::failures::Failures;
use super::telemetry::Telemetry;
use crate::stats::Counters;
use crate::trace::Journal;

/// The sizes of storages and the ops that made them, the largest first.
pub type Residents = Vec<(usize, &'static str)>;

/// What happened so far.
#[derive(Debug, Default)]
pub struct Observer {
    pub journal: Journal,
    pub telemetry: Telemetry,
    pub counters: Counters,
    /// The number of ops so far. Recency is measured in these.
    pub clock: u64,
    /// The predicted time of all ops so far, including rematerialized ones.
    pub computed_ns: u64,
    /// The number of candidates for eviction that were scanned so far. A storage counts each time that it is scanned.
    pub candidates_scanned: Cell<u64>,
    /// The launches that failed after their submission.
    pub failures: Failures,
    pub usage: Usage,
    /// The residents after the op that the settings name.
    pub snapshot: Residents,
}

/// How much device memory was in use.
#[derive(Debug, Default)]
pub struct Usage {
    /// The maximum number of bytes in use, and the op at which it was reached.
    pub peak: (usize, u64),
    /// The integral of the bytes in use over the time of ops, and that time.
    pub use_over_time: (u128, u128),
    /// The largest working set of an op so far.
    pub largest_op_bytes: usize,
    /// The number of pages mapped before the totals were last reset.
    pub mapped_before: u64,
}

impl Observer {
    /// The state before anything has happened.
    pub fn new(journal: Journal) -> Self {
        Observer { journal, ..Observer::default() }
    }

    /// Notes the working set of an op.
    pub fn note_need(&mut self, bytes: usize) {
        self.usage.largest_op_bytes = self.usage.largest_op_bytes.max(bytes);
    }

    /// Notes that candidates for eviction were scanned.
    pub fn note_scanned(&self, candidates: u64) {
        self.candidates_scanned.set(self.candidates_scanned.get() + candidates);
    }
}
