//! Online liveness: training repeats itself, so what a storage will be used for next is what its like was used for one
//! iteration ago. Pure; knows ops by signature and storages by where they were last touched, and nothing else.
//!
//! - `tracker`: follows the stream of ops and tells next uses. `history`: the stream so far.

mod history;
mod tracker;

pub use tracker::{NextUse, Observed, Operand, Touch, Tracker};

/// What an op is like, apart from what changes from one iteration to the next: kind, element types, shapes and layouts, but
/// no scalars or seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature(pub u64);

#[cfg(test)]
mod tests;
