#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

#[cfg(any(feature = "direct", feature = "server"))]
mod device;
#[cfg(feature = "direct")]
mod direct;
#[cfg(feature = "serve")]
mod serve;
#[cfg(all(feature = "server", not(feature = "direct")))]
mod server;

pub use burn_overcommit::{
    Amount, Config, Counters, Error, Exactness, FloatFormat, ModuleScope, OvercommitDevice, Placement,
    PlanCache, Planning, PlanningState, Policy, Profile, Reads, SimProfile, Stats, Variable, WorkingSet,
    module, note, prometheus, recording, reset_stats, stats,
};
#[cfg(any(feature = "direct", feature = "server"))]
pub use device::{device, device_on};
#[cfg(feature = "serve")]
#[doc(hidden)]
pub use serve::main as serve;

#[cfg(not(any(feature = "direct", feature = "server", feature = "serve")))]
compile_error!("burn-overcommit-022 reaches its devices by one of the features `direct` and `server`");
