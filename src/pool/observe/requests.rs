//! The state of the request log, which is kept until a whole iteration can be planned.

use std::sync::Arc;
use std::time::Instant;

use super::tallies::Tallies;
use crate::schedule::RequestLog;

/// The request log, and whether one is wanted.
#[derive(Debug, Default)]
pub struct Requests {
    /// The requests since memory became short. The planner takes them.
    pub log: Option<Box<RequestLog>>,
    /// Whether the pool plans iterations.
    pub plans_iterations: bool,
    /// Whether the next eviction starts a log, or a log is under way.
    pub wants_log: bool,
    /// The tallies of the log.
    pub tallies: Tallies,
    /// The planner holds a clone of this while it is at work.
    pub planning: Arc<()>,
    /// When the planner last began.
    pub planning_begun: Option<Instant>,
    /// No iteration was recognized in a log of the maximum length.
    pub no_period_found: bool,
    /// Whether plans use measured times.
    pub uses_measured_times: bool,
}
