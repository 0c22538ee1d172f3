//! Plans of whole iterations. The planner makes schedules from what the program requested, and judges each by running it through
//! the pool on the simulation.
//!
//! - [`iteration`]: the iteration that is planned. [`dataflow`]: the iteration as policies see it. [`problem`]: the iteration with
//!   the device and the settings that it is planned for.
//! - [`planning`]: the order in which schedules are searched and offered. [`search`]: the candidates that are tried. [`kinds`]:
//!   the intervals that are changed together. [`trial`]: the run that judges a candidate.
//! - [`reservations`]: which storages spend an interval on the host. [`lanes`]: when their copies run.
//! - [`assignment`]: which storages stay, move and are dropped. [`incremental_cost`]: the predicted cost of an assignment.
//!   [`annealing`]: assignments by chance.
//! - [`blocks`]: the blocks of an iteration. [`addresses`]: schedules that say where these are. [`lifetime`]: when memory is in
//!   use. [`smartpool`], [`pages`]: how placements are chosen. [`ejection`]: how they are improved.
//! - [`paper_figures`]: numbers that only a comparison with a paper needs.

mod addresses;
mod annealing;
mod assignment;
mod blocks;
mod candidate;
mod dataflow;
mod ejection;
mod incremental_cost;
mod iteration;
mod kinds;
mod lanes;
mod lifetime;
mod pages;
#[doc(hidden)]
pub mod paper_figures;
mod planning;
mod problem;
mod reservations;
mod search;
mod smartpool;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trial;

pub use lifetime::{Lifetime, peak_bytes};
pub use planning::{PlanRequest, plan};
pub use smartpool::place;
#[cfg(test)]
pub use testing::{dataflow, in_words};
