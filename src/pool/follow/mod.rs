//! Doing what a plan says while the program is where the plan knows it.

pub mod absent;
pub mod drift;
pub mod follower;
pub mod following;
pub mod intervals;
pub mod plans;
pub mod prefetch;
pub mod prefetch_distance;
pub mod relocation;
pub mod request_log;
pub mod streams;
pub mod tracking;
