//! What planner and pool say to each other: the program's requests, and the schedule for the next time that it makes them.

mod cursor;
mod decision;
mod eviction;
mod interval;
mod iteration;
mod layout;
mod prefetch;
mod requests;

pub use decision::{Decision, ScheduleOutcome};
pub use eviction::{Eviction, EvictionOrder, WeightedRule};
pub use interval::{Interval, IntervalId};
pub use iteration::{AlgorithmChoice, Schedule, ScheduledOp};
pub use layout::{BlockPlacement, Layout, PlannedBlock};
pub use prefetch::{MAX_PREFETCH_DISTANCE, PrefetchDistance};
pub use requests::{PlanId, Request, RequestLog, StreamId};

// Until the pool uses the new names.
pub use cursor::{Cursor as Place, RecentOps as Recent};
pub use decision::ScheduleOutcome as Done;
pub use eviction::{EvictionOrder as Turn, WeightedRule as Weighed};
pub use layout::BlockPlacement as Spot;
pub use prefetch::{MAX_PREFETCH_DISTANCE as MOST_REACH, PrefetchDistance as Reach};
pub use requests::{InitialStorage as Begun, Request as Asked, RequestLog as Log};
