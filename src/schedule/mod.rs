//! What planner and pool say to each other: the program's requests, and the schedule for the next time that it makes them.

mod beginning;
mod cursor;
mod decision;
mod eviction;
mod interval;
mod iteration;
mod layout;
mod prefetch;
mod requests;

pub use beginning::{Beginning, BeginningId};
pub use cursor::{Cursor, RecentOps};
pub use decision::{Decision, ScheduleOutcome};
pub use eviction::{Eviction, EvictionOrder, WeightedRule};
pub use interval::{IntervalId, IntervalPlan, ScheduledInterval};
pub use iteration::{AlgorithmChoice, Schedule, ScheduledOp};
pub use layout::{BlockPlacement, Layout, PlannedBlock};
pub use prefetch::{MAX_PREFETCH_DISTANCE, PrefetchDistance};
pub use requests::{InitialStorage, PlanId, Request, RequestLog, StreamId};
