//! Following a plan while the program is where the plan expects it.

pub mod absent_storages;
pub mod active_plans;
pub mod drift;
pub mod follower;
pub mod following_plan;
pub mod intervals;
mod load_ahead;
pub mod prefetch;
pub mod prefetch_distance;
pub mod relocation;
pub mod request_log;
pub mod streams;
pub mod tracking;
