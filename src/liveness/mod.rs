//! Online liveness: training repeats itself, so what a storage will be used for next is what its like was used for one
//! iteration ago. Pure.
//!
//! - `tracker`: follows the stream of ops and tells next uses; knows ops by signature and storages by where they were last
//!   touched, and nothing else. `history`: the stream so far.
//! - `dataflow`: one iteration as a whole. `phases`, `layers`: what its parts are.

mod analysis;
mod dataflow;
mod history;
mod layers;
mod parts;
mod phases;
mod tracker;

pub use dataflow::{Dataflow, Gap, NewOp, Operation, Value};
pub use history::Observed;
pub use parts::{Layer, LayerKind, Phase};
pub use tracker::{MOST_PERIOD, NextUse, Operand, Touch, Tracker};

/// What an op is like, apart from what changes from one iteration to the next: kind, element types, shapes and layouts, but
/// no scalars or seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature(pub u64);

#[cfg(test)]
mod tests;
