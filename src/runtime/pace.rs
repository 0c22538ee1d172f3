//! How far a program may be ahead of its device.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::{Engine, EngineError, Lane, Mark};

/// How many ops may be submitted and not done: enough to keep the device busy, few enough that the queue stays small.
const MAX_OPS_AHEAD: u64 = 4096;

/// How many ops are submitted from one check of the device's progress to the next.
const OPS_PER_CHECK: u64 = 256;

/// Checks now and then how far the program is ahead.
#[derive(Debug, Default)]
pub struct Pace {
    /// At which op of the compute lane the next check is due.
    next_check: AtomicU64,
}

impl Pace {
    /// Waits if the program is too far ahead.
    pub fn keep(&self, engine: &dyn Engine) -> Result<(), EngineError> {
        let end = engine.mark(Lane::Compute);
        if end.sequence < self.next_check.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.next_check.store(end.sequence + OPS_PER_CHECK, Ordering::Relaxed);
        let mark = Mark { sequence: end.sequence.saturating_sub(MAX_OPS_AHEAD), ..end };
        if engine.reached(mark) { Ok(()) } else { engine.sync(mark) }
    }
}
