//! What planner and pool say to each other: what a program asked for, and what is to be done when it asks again.

mod cursor;
mod decision;
mod eviction;
mod interval;
mod iteration;
mod layout;
mod prefetch;
mod requests;

pub use cursor::{Place, Recent};
pub use decision::{Decision, Done};
pub use eviction::{Eviction, Turn, Weighed};
pub use interval::{Interval, IntervalId, ScheduledInterval};
pub use iteration::{AlgorithmChoice, Schedule, ScheduledOp};
pub use layout::{Layout, PlannedBlock, Spot};
pub use prefetch::{MOST_REACH, Reach};
pub use requests::{Asked, Begun, Log, PlanId, StreamId};
