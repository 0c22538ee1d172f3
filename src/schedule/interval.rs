//! What a schedule does with a storage in an interval, which is the time from one touch of the storage to the next.

use serde::{Deserialize, Serialize};

use super::eviction::{Eviction, EvictionOrder};

/// The number of an interval in its iteration, the same in the [`Dataflow`](crate::liveness::Dataflow) and in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IntervalId(pub u32);

/// What a schedule does with a storage in an interval. What the program does in it is [`liveness::Interval`](crate::liveness::Interval).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalPlan {
    /// The number of ops until the next touch, or `None` if the storage is freed before.
    pub next_ops: Option<u32>,
    /// The eviction method, if the schedule states it. An offloaded storage is copied to the host as soon as the interval
    /// begins. A dropped one is dropped even if moving it is cheaper.
    pub method: Option<Eviction>,
    /// The storage is copied to the host as soon as the interval begins, to leave in a later interval.
    pub copied: bool,
    /// When the storage leaves device memory.
    pub order: EvictionOrder,
    /// The storage may be kept on the host.
    pub may_move: bool,
    /// The storage outlives the iteration: it is a source from now on.
    pub persists: bool,
}

/// An interval of one schedule, told apart from those of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledInterval {
    pub schedule: u32,
    pub interval: IntervalId,
}
