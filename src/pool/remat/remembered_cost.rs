//! What is remembered of the neighbourhoods of storages.

use std::cell::Cell;

use super::ids::StorageId;

/// Changes that are looked at one by one; of more, all that is remembered is forgotten.
pub const MAX_CHANGES: usize = 256;
/// What is remembered of a storage.
#[derive(Debug, Clone, Default)]
pub struct RememberedCost {
    pub known: Cell<KnownCost>,
    /// The last walk of changes that came by.
    pub last_walk: Cell<u64>,
}

/// A walk that was made.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownCost {
    /// When: of another age nothing is true any more. The first age is 1.
    pub age: u32,
    pub cost_ns: u64,
    /// Where it would have ended early.
    pub max_ns: u64,
}

/// Storages near which what is remembered may not be true any more.
#[derive(Debug)]
pub struct Changes {
    pub ids: Vec<StorageId>,
    pub age: u32,
    pub walks: u64,
}

impl Default for Changes {
    fn default() -> Self {
        Changes { ids: Vec::new(), age: 1, walks: 0 }
    }
}

impl Changes {
    pub fn add(&mut self, id: StorageId) {
        // One more says that there were too many.
        if self.ids.len() <= MAX_CHANGES && self.ids.last() != Some(&id) {
            self.ids.push(id);
        }
    }
}
