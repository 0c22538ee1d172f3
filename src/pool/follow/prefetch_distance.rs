//! How early storages are fetched if no plan states it.

use crate::schedule::MAX_PREFETCH_DISTANCE;

/// The prefetch distance if no plan states it. It is halved when a prefetched storage is evicted before its use, and
/// grows by one part when a prefetched storage is used.
#[derive(Debug)]
pub struct AdaptiveDistance {
    /// The distance, in parts of the time that the storage's copy takes.
    pub parts: u64,
}

impl AdaptiveDistance {
    /// Notes that an op used a prefetched storage.
    pub fn note_used(&mut self) {
        self.parts = (self.parts + 1).min(MAX_PREFETCH_DISTANCE);
    }

    /// Notes that a prefetched storage was evicted before its use.
    pub fn note_wasted(&mut self) {
        self.parts /= 2;
    }
}

impl Default for AdaptiveDistance {
    fn default() -> Self {
        AdaptiveDistance { parts: MAX_PREFETCH_DISTANCE }
    }
}
