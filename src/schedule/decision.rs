//! What a pool did where it followed a schedule.

use super::eviction::Eviction;
use super::interval::IntervalId;
use crate::engine::Mark;

/// An eviction: during which op of the schedule, of the storage in which interval, and how.
pub type Decision = (u32, IntervalId, Eviction);

/// What was done with storages while a schedule was followed, by the intervals that they were in.
#[derive(Debug, Default)]
pub struct Done {
    /// What was evicted.
    pub evicted: Vec<Decision>,
    /// What was made again, and the predicted time of that.
    pub remade: Vec<(IntervalId, u64)>,
    /// What was copied.
    pub copied: Vec<(Mark, IntervalId)>,
}
