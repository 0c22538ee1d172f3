//! The state of planning, which explains why there is no plan yet.

use std::fmt;
use std::time::Duration;

/// The state of planning for a program's iterations. `Display` explains it in words.
///
/// A plan is made once memory is short, the program's ops repeat, and two whole iterations were logged since then.
///
/// ```
/// use burn_overcommit::{OvercommitDevice, PlanningState, stats};
///
/// let planning = stats(&OvercommitDevice::Host(0))?.planning;
/// assert_eq!(planning, PlanningState::MemoryNotShort);
/// assert_eq!(planning.to_string(), "not begun, since memory was never short");
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanningState {
    /// Planning is switched off by [`Config::planning`](crate::Config::planning).
    Off,
    /// The policy does not plan; it only has a rule for evictions.
    NotByPolicy,
    /// Nothing was evicted so far, so no plan is needed.
    MemoryNotShort,
    /// The ops since memory became short do not repeat.
    NoRepetition {
        /// Number of these ops.
        logged_ops: usize,
    },
    /// The ops repeat, but no whole iteration has come twice: it differs from the one before, or it is not over.
    Differs {
        /// Number of ops after which they seem to repeat.
        iteration_ops: usize,
        /// Number of the latest ops that were the same as one iteration before.
        alike_ops: usize,
    },
    /// The ops repeat, but two whole iterations have not been logged yet since memory became short.
    Repeats {
        /// Number of ops of an iteration.
        iteration_ops: usize,
        /// Number of ops logged.
        logged_ops: usize,
    },
    /// The ops repeat, but the program holds a different amount of memory each time.
    HoldsDifferently {
        /// Number of ops that repeat.
        iteration_ops: usize,
    },
    /// The ops have not repeated for so long that an iteration, if there is one, is too long to be recognised.
    TooLong {
        /// The most ops of an iteration that is recognised.
        most_ops: usize,
    },
    /// The first plan is being searched in the background.
    Planning {
        /// Number of ops of the iteration.
        iteration_ops: usize,
        /// Time since the search began.
        elapsed: Duration,
    },
    /// A plan is active.
    Followed {
        /// Number of ops of its iteration.
        iteration_ops: usize,
        /// The op since which it has been active without a break, counted from the device's first use.
        since_op: u64,
        /// Whether a better plan is being searched.
        is_improved: bool,
        /// Whether the plan is of an earlier run: see [`Config::plan_cache`](crate::Config::plan_cache).
        is_kept: bool,
    },
    /// There are plans, but the program is in none of their iterations now.
    NotFollowed {
        /// Number of plans.
        plans: usize,
    },
    /// There is a plan, but it is not used: the host tier has less room than device memory, so the plan's early
    /// copies could make the program fail.
    HostTierTooSmall {
        /// Bytes of room in the host tier.
        room_bytes: usize,
        /// Bytes of room that are needed.
        needed_bytes: usize,
    },
    /// The plan is for the ops of a thread that is no longer the one that computes the most.
    OtherThread,
    /// The search is over, and no plan is better than none.
    NoneBetter {
        /// Number of ops of the iteration.
        iteration_ops: usize,
    },
}

impl fmt::Display for PlanningState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlanningState::*;
        match *self {
            Off => write!(f, "off, by Config::planning"),
            NotByPolicy => write!(f, "none, since the policy does not plan"),
            MemoryNotShort => write!(f, "not begun, since memory was never short"),
            NoRepetition { logged_ops } => {
                write!(
                    f,
                    "the iteration is not known: {logged_ops} ops since memory was short, and no repetition in them"
                )
            }
            Differs { iteration_ops, alike_ops } => write!(
                f,
                "the iteration is not known: {iteration_ops} ops seem to repeat, and the last {alike_ops} were as before"
            ),
            Repeats { iteration_ops, logged_ops } => write!(
                f,
                "the iteration of {iteration_ops} ops is known, and {logged_ops} of two iterations are logged since memory was short"
            ),
            HoldsDifferently { iteration_ops } => write!(
                f,
                "the iteration is not known: {iteration_ops} ops repeat, and the program holds another amount of memory each time"
            ),
            TooLong { most_ops } => {
                write!(
                    f,
                    "none: no iteration of {most_ops} ops or fewer was found, and longer ones are not looked for"
                )
            }
            Planning { iteration_ops, elapsed } => {
                write!(
                    f,
                    "an iteration of {iteration_ops} ops is being planned for {:.1} s",
                    elapsed.as_secs_f64()
                )
            }
            Followed { iteration_ops, since_op, is_improved, is_kept } => {
                let of = if is_kept { "the plan of an earlier run" } else { "the plan" };
                write!(
                    f,
                    "an iteration of {iteration_ops} ops is planned, and {of} followed since op {since_op}"
                )?;
                if is_improved { write!(f, "; a better one is looked for") } else { Ok(()) }
            }
            NotFollowed { plans } => {
                write!(f, "there are plans, {plans}, and the program is in none of their iterations now")
            }
            HostTierTooSmall { room_bytes, needed_bytes } => write!(
                f,
                "planned, and not followed: the host tier has room for {room_bytes} bytes, and must have it for the budget, {needed_bytes}"
            ),
            OtherThread => {
                write!(f, "planned for the ops of another thread than the one that computes the most")
            }
            NoneBetter { iteration_ops } => {
                write!(
                    f,
                    "an iteration of {iteration_ops} ops was planned, and no plan found that is better than none"
                )
            }
        }
    }
}
