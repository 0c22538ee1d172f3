#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod convert;
mod device;
mod quantized;
#[cfg(feature = "serve")]
mod serve;
mod traits;

pub use burn_overcommit::{
    Amount, Config, Counters, Error, Exactness, FloatFormat, ModuleScope, OvercommitDevice, Placement,
    PlanCache, Planning, PlanningState, Policy, Profile, Reads, SimProfile, Stats, Variable, WorkingSet,
    module, note, prometheus, recording, reset_stats, stats,
};
pub use device::{device, device_on};
#[cfg(feature = "serve")]
#[doc(hidden)]
pub use serve::main as serve;

/// The backend behind the devices of this crate. Burn 0.23 knows it by its devices alone.
#[derive(Clone, Copy, Debug, Default)]
struct Overcommit;
