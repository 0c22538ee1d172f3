//! How far a program may be ahead of its device.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::{Engine, EngineError, Lane, Mark};

/// Ops that may be submitted and not done: enough to keep the device busy, few enough that the queue stays small.
const MOST_AHEAD: u64 = 4096;

/// Pieces of work between two looks at how far the device is.
const PIECES_A_LOOK: u64 = 256;

/// Looks now and then how far the device is.
#[derive(Debug, Default)]
pub struct Pace {
    /// The piece of work from which on that is next looked at.
    looks_at: AtomicU64,
}

impl Pace {
    /// Waits if the program is too far ahead.
    pub fn keep(&self, engine: &dyn Engine) -> Result<(), EngineError> {
        let end = engine.mark(Lane::Compute);
        if end.sequence < self.looks_at.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.looks_at.store(end.sequence + PIECES_A_LOOK, Ordering::Relaxed);
        let mark = Mark { sequence: end.sequence.saturating_sub(MOST_AHEAD), ..end };
        if engine.reached(mark) { Ok(()) } else { engine.sync(mark) }
    }
}
