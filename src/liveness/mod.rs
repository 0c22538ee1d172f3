//! Online liveness. Training repeats itself, so a storage's next use is predicted from the use of the corresponding
//! storage one iteration ago. Nothing here has side effects.
//!
//! - `tracker` follows the stream of ops and predicts next uses. It knows ops by their signatures, and storages by
//!   where they were last touched. `history` is the stream so far.
//! - `dataflow` is one iteration as a whole. `analysis` completes it, with `phases` and `layers`, which find its
//!   `parts`.
//!
//! ```
//! use burn_overcommit::liveness::{Observed, Signature, Tracker};
//!
//! let mut tracker = Tracker::default();
//! for op in 0..64 {
//!     let op = Observed { signature: Signature(op % 4), live_bytes: 0, scratch_bytes: 0, launch_ns: 1 };
//!     tracker.op(op, &mut []);
//! }
//! assert_eq!(tracker.period(), Some(4));
//! ```

mod analysis;
mod dataflow;
mod history;
mod layers;
mod parts;
mod phases;
mod tracker;

pub use dataflow::{Dataflow, Interval, NewOp, Operation, Value};
pub use history::Observed;
pub use parts::{Layer, LayerKind, Phase};
pub use tracker::{MAX_PERIOD, NextUse, Touch, TrackedOperand, Tracker};

/// Identifies ops that are alike in all that stays from one iteration to the next: kind, element types, shapes and
/// layouts, but no scalars or seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature(pub u64);

#[cfg(test)]
mod tests;
