//! How long before its use a storage is fetched.

/// The parts of the time of a copy that [`Schedule::reach`] counts.
const REACH_PARTS: u64 = 16;
/// The most that [`Schedule::reach`] is: more than one copy, since others wait for the lane, too.
pub const MOST_REACH: u64 = 16 * REACH_PARTS;

/// What is smaller than one of so many parts of the budget is fetched as early as if it were as large, where small storages are hurried
/// with.
const LEAST_PARTS: usize = 64;

/// How long before its use a storage is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// In sixteenths of the time that its copy takes. With 0 it is fetched when it is used.
    pub parts: u64,
    /// What is small is fetched as early as a larger storage would be: a copy of a few bytes waits behind large ones too.
    pub hurries_small: bool,
}

impl Reach {
    /// The longest.
    pub const MOST: Reach = Reach { parts: MOST_REACH, hurries_small: true };

    /// How long before its use a storage of so many bytes is fetched under a budget, if copies take so long.
    pub fn ahead_ns(self, bytes: usize, budget_bytes: usize, copy_ns: impl Fn(usize) -> u64) -> u64 {
        let least_bytes = if self.hurries_small { budget_bytes / LEAST_PARTS } else { 0 };
        self.parts * copy_ns(bytes.max(least_bytes)) / REACH_PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_is_fetched_as_early_as_a_part_of_the_budget_would_be() {
        let ahead_ns = |bytes, hurries_small| {
            let reach = Reach { parts: 2 * REACH_PARTS, hurries_small };
            reach.ahead_ns(bytes, 6400, |bytes| bytes as u64)
        };
        assert_eq!([1, 100, 150].map(|bytes| ahead_ns(bytes, true)), [200, 200, 300]);
        assert_eq!([1, 100, 150].map(|bytes| ahead_ns(bytes, false)), [2, 200, 300]);
    }
}
