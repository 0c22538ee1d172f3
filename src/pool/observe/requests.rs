//! What a thread of the program asked for lately, kept until a whole iteration of it can be planned.

use std::sync::Arc;
use std::time::Instant;

use crate::op::Tally;
use crate::pool::remat::storage::TierCopy;
use crate::schedule::RequestLog;

/// The number of a storage, what was counted of it, and where that is.
pub type Tallied = (u64, Tally, TierCopy);

/// What is kept of what the program asked for.
#[derive(Debug, Default)]
pub struct Requests {
    /// Since memory was short, until that is planned.
    pub log: Option<Box<RequestLog>>,
    /// Whether iterations are planned.
    pub plans_iterations: bool,
    /// Whether there is to be a log.
    pub learns: bool,
    /// What is counted for the log.
    pub tallies: Vec<Tallied>,
    /// Held by whoever plans.
    pub planning: Arc<()>,
    /// When that was last begun.
    pub planning_begun: Option<Instant>,
    /// No iteration was found in as much of the program as is looked at.
    pub found_none: bool,
    /// Whether plans go by measured times.
    pub measures: bool,
}
