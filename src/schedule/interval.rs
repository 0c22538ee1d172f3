//! The time from one touch of a storage to the next.

use super::eviction::{Eviction, Turn};

/// Names an interval: the time from one touch of a storage by an op to the next, wherever in the iteration that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IntervalId(pub u32);

/// The time from one touch of a storage to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Ops until the next touch; none if the storage is dropped before.
    pub next_ops: Option<u32>,
    /// How it leaves device memory, if that is decided: its bytes are copied to the host as soon as the interval begins, or
    /// dropped even where moving them is cheaper.
    pub how: Option<Eviction>,
    /// Its bytes are copied to the host as soon as the interval begins, for it to leave in a later one.
    pub copied: bool,
    /// When it leaves device memory.
    pub turn: Turn,
    /// Its bytes may be kept on the host.
    pub may_move: bool,
    /// It outlives the iteration: it is a source from now on.
    pub persists: bool,
}

/// An interval of one schedule, told apart from those of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledInterval {
    pub schedule: u32,
    pub interval: IntervalId,
}
