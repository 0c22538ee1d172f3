#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

#[cfg(feature = "autodiff")]
pub mod autodiff;
#[cfg(feature = "backend")]
pub mod backend;
mod codec;
mod config;
mod device;
mod disk_cache;
mod dry_run;
pub mod engine;
mod error;
#[doc(hidden)]
pub mod face;
#[doc(hidden)]
pub mod functions;
mod fusion;
pub mod liveness;
mod messages;
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
#[cfg(all(feature = "serve", unix))]
#[doc(hidden)]
pub mod serve;
mod stats;
#[cfg(test)]
mod tests;
pub mod trace;

#[doc(hidden)]
pub use crate::config::{PlantedFault, Tunables};
pub use crate::config::{Policy, Reads};
#[cfg(feature = "autodiff")]
pub use autodiff::name_modules;
#[cfg(feature = "backend")]
pub use backend::Overcommit;
pub use config::{Amount, Config, Exactness, Placement, PlanCache, Planning, VARIABLES, Variable};
pub use device::{OvercommitDevice, SimProfile};
pub use dry_run::{BudgetedRun, DryRun, Held, Steps, dry_run};
#[cfg(feature = "host")]
pub use engine::host::LaneMode;
pub use engine::sim::Profile;
pub use error::{Error, WorkingSet};
pub use module::{ModuleScope, module};
pub use op::FloatFormat;
pub use runtime::{configure, note, recording, reset_stats, stats};
pub use stats::{Counters, PlanningState, Stats, prometheus};

/// The listings of the book compile and run.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../docs/book/src/budget.md")]
    mod budget {}
    #[doc = include_str!("../docs/book/src/devices.md")]
    mod devices {}
    #[doc = include_str!("../docs/book/src/peers.md")]
    mod peers {}
    #[doc = include_str!("../docs/book/src/disk.md")]
    mod disk {}
    #[doc = include_str!("../docs/book/src/exactness.md")]
    mod exactness {}
    #[cfg(feature = "autodiff")]
    #[doc = include_str!("../docs/book/src/explaining.md")]
    mod explaining {}
    #[doc = include_str!("../docs/book/src/first-step.md")]
    mod first_step {}
    #[cfg(feature = "train")]
    #[doc = include_str!("../docs/book/src/monitoring.md")]
    mod monitoring {}
    #[doc = include_str!("../docs/book/src/out-of-memory.md")]
    mod out_of_memory {}
    #[cfg(feature = "autodiff")]
    #[doc = include_str!("../docs/book/src/precision.md")]
    mod precision {}
    #[doc = include_str!("../docs/book/src/prediction.md")]
    mod prediction {}
    #[doc = include_str!("../docs/book/src/recording.md")]
    mod recording {}
    #[cfg(feature = "autodiff")]
    #[doc = include_str!("../docs/book/src/saving-less.md")]
    mod saving_less {}
    #[doc = include_str!("../docs/book/src/settings.md")]
    mod settings {}
    #[doc = include_str!("../docs/book/src/statistics.md")]
    mod statistics {}
}
