//! What a pool did while it followed a schedule.

use super::eviction::Eviction;
use super::interval::IntervalId;
use crate::engine::Mark;

/// An eviction: the op of the schedule that it happens at, the interval of the storage, and the eviction method.
pub type Decision = (u32, IntervalId, Eviction);

/// What happened to storages while a schedule was followed, by their intervals.
#[derive(Debug, Default)]
pub struct ScheduleOutcome {
    /// The evictions.
    pub evicted: Vec<Decision>,
    /// The intervals that were rematerialized, and the predicted time of that.
    pub rematerialized: Vec<(IntervalId, u64)>,
    /// The copies.
    pub copied: Vec<(Mark, IntervalId)>,
}
