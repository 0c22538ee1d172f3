//! Recordings for people: files for the viewers of others, and a page of our own.
//!
//! - [`chrome`]: Chrome's trace events, for Perfetto. [`memory_viz`]: PyTorch's memory snapshots, for its viewer.
//! - [`ledger`]: what is where, from event to event. [`moments`]: when. [`scene`]: what for.

mod chrome;
mod ledger;
mod memory_viz;
mod moments;
mod scene;

pub use chrome::write_chrome;
pub use memory_viz::{write_memory_viz_json, write_memory_viz_pickle};
