//! Where planning stands, and why there is no plan yet.

use std::fmt;
use std::time::Duration;

/// Where the planning of a program's iterations stands. `Display` says it in words.
///
/// A plan is made once memory is short, the program's ops repeat, and two whole iterations of them were logged since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanningState {
    /// [`Config::planning`](crate::Config::planning) says so.
    Off,
    /// The policy only has a rule.
    NotByPolicy,
    /// Nothing was evicted that a plan could have evicted better.
    MemoryNotShort,
    /// The ops since memory was short do not repeat.
    NoRepetition {
        /// How many there are.
        logged_ops: usize,
    },
    /// They repeat, but did not yet for an iteration and another: the iteration differs from the one before, or is not over.
    Differs {
        /// Ops after which they repeat.
        iteration_ops: usize,
        /// The latest that were as the iteration before.
        alike_ops: usize,
    },
    /// They repeat; two whole iterations are to be logged since memory was short.
    Repeats {
        /// Ops of an iteration.
        iteration_ops: usize,
        /// Ops logged.
        logged_ops: usize,
    },
    /// They repeat, but the program holds more or less memory each time.
    HoldsDifferently {
        /// Ops of what repeats.
        iteration_ops: usize,
    },
    /// The ops did not repeat for so long that the iteration is longer than what is recognised, if there is one.
    TooLong {
        /// The most ops of one that is.
        most_ops: usize,
    },
    /// The first plan is being looked for, beside the program.
    Planning {
        /// Ops of the iteration.
        iteration_ops: usize,
        /// For how long.
        elapsed: Duration,
    },
    /// What a plan says is done.
    Followed {
        /// Ops of its iteration.
        iteration_ops: usize,
        /// The op since which it is done without a break, counted from the device's first use.
        since_op: u64,
        /// Whether a better plan is being looked for.
        is_improved: bool,
    },
    /// There are plans, and the program is in none of their iterations now.
    NotFollowed {
        /// How many.
        plans: usize,
    },
    /// A plan is there, and the host tier has less room than device memory, so that doing as it says could make the program fail.
    HostTierTooSmall {
        /// The room that there is.
        room_bytes: usize,
        /// The room that there must be.
        needed_bytes: usize,
    },
    /// The plan is of another thread's ops than of the one that computes the most.
    OtherThread,
    /// Planned, and no plan was found that is better than none.
    NoneBetter {
        /// Ops of the iteration.
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
            Followed { iteration_ops, since_op, is_improved } => {
                write!(
                    f,
                    "an iteration of {iteration_ops} ops is planned, and the plan followed since op {since_op}"
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
