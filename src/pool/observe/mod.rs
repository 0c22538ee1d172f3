//! What happened in the pool: for the planner, for users and for the journal.

pub mod failures;
pub mod figures;
mod invariants;
pub mod journal;
pub mod observer;
pub mod planning_state;
pub mod requests;
pub mod tallies;
pub mod telemetry;
