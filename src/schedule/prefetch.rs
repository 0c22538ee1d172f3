//! How long before its use a storage is fetched.

use serde::{Deserialize, Serialize};

/// [`Schedule::prefetch_distance`](super::Schedule) counts in such parts of the time of a copy.
const PARTS_PER_COPY: u64 = 16;
/// The largest prefetch distance. It is longer than one copy, since other copies wait for the lane too.
pub const MAX_PREFETCH_DISTANCE: u64 = 16 * PARTS_PER_COPY;

/// A storage of less than this part of the budget is fetched as early as if it were as large, because a copy of a few bytes waits
/// behind large copies too.
const MIN_PARTS: usize = 64;

/// How long before its use a storage is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PrefetchDistance {
    /// The distance in sixteenths of the time of the storage's copy. With 0 the storage is fetched when it is used.
    pub parts: u64,
}

impl PrefetchDistance {
    /// The largest distance.
    pub const MAX: PrefetchDistance = PrefetchDistance { parts: MAX_PREFETCH_DISTANCE };

    /// How long before its use a storage of so many bytes is fetched under a budget. `copy_ns` gives the time of a copy.
    pub fn ahead_ns(self, bytes: usize, budget_bytes: usize, copy_ns: impl Fn(usize) -> u64) -> u64 {
        self.parts * copy_ns(bytes.max(budget_bytes / MIN_PARTS)) / PARTS_PER_COPY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_is_fetched_as_early_as_a_part_of_the_budget_would_be() {
        let prefetch_distance = PrefetchDistance { parts: 2 * PARTS_PER_COPY };
        let ahead_ns = |bytes| prefetch_distance.ahead_ns(bytes, 6400, |bytes| bytes as u64);
        assert_eq!([1, 100, 150].map(ahead_ns), [200, 200, 300]);
    }
}
