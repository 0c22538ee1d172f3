//! The remembered costs of neighbourhoods, and the changes that end their validity.

use std::cell::Cell;

use super::ids::StorageId;

/// The most changes that are handled one by one. After more changes, all remembered costs are forgotten.
pub const MAX_CHANGES: usize = 256;

/// The remembered cost of a storage's evicted neighbourhood.
#[derive(Debug, Clone, Default)]
pub struct RememberedCost {
    pub known: Cell<KnownCost>,
    /// The last walk from a changed storage that passed this one.
    pub last_walk: Cell<u64>,
}

/// The result of a walk through a neighbourhood.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownCost {
    /// The age in which the walk was made. In any other age the result is not valid. The first age is 1.
    pub age: u32,
    /// The cost that the walk found.
    pub cost_ns: u64,
    /// The cost at which the walk would have ended early.
    pub max_ns: u64,
}

/// The storages that changed since costs were last forgotten.
#[derive(Debug)]
pub struct Changes {
    pub ids: Vec<StorageId>,
    /// The current age of remembered costs.
    pub age: u32,
    /// The number of walks from changed storages so far.
    pub walks: u64,
}

impl Default for Changes {
    fn default() -> Self {
        Changes { ids: Vec::new(), age: 1, walks: 0 }
    }
}

impl Changes {
    /// Adds a storage that changed.
    pub fn add(&mut self, id: StorageId) {
        // One id more than the limit tells that there were too many.
        if self.ids.len() <= MAX_CHANGES && self.ids.last() != Some(&id) {
            self.ids.push(id);
        }
    }
}
