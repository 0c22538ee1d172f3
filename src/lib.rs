#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[cfg(feature = "autodiff")]
pub mod autodiff;
pub mod backend;
mod codec;
mod config;
mod device;
mod disk_cache;
mod dry_run;
pub mod engine;
mod error;
mod fusion;
pub mod liveness;
#[cfg(feature = "train")]
pub mod metrics;
mod module;
pub mod op;
mod planner;
mod policy;
mod pool;
pub mod replay;
#[cfg(feature = "report")]
pub mod report;
pub mod runtime;
mod schedule;
mod stats;
#[cfg(test)]
mod tests;
pub mod trace;

#[doc(hidden)]
pub use crate::config::{PlantedFault, Tunables};
pub use crate::config::{Policy, Reads};
pub use backend::Overcommit;
pub use config::{Amount, Config, Exactness, Placement, PlanCache, Planning, VARIABLES, Variable};
pub use device::{OvercommitDevice, SimProfile};
pub use dry_run::{BudgetedRun, DryRun, Held, dry_run};
#[cfg(feature = "host")]
pub use engine::host::LaneMode;
pub use engine::sim::Profile;
pub use error::{Error, WorkingSet};
pub use module::{ModuleScope, module};
pub use op::FloatFormat;
pub use runtime::{configure, note, recording, reset_stats, stats};
pub use stats::{Counters, PlanningState, Stats, prometheus};

/// The code in the guide compiles and runs.
#[cfg(doctest)]
mod guide {
    #[cfg(feature = "autodiff")]
    #[doc = include_str!("../docs/guide/autodiff.md")]
    mod autodiff {}
    #[doc = include_str!("../docs/guide/prediction.md")]
    mod prediction {}
    #[doc = include_str!("../docs/guide/settings.md")]
    mod settings {}
}
