//! Recordings for people: files for the viewers of others, and a page of our own.
//!
//! - [`chrome`]: Chrome's trace events, for Perfetto. [`memory_viz`]: PyTorch's memory snapshots, for its viewer.
//! - [`html`]: a page. [`memory_chart`], [`lane_chart`]: its charts. [`charts`]: what they share. [`theme`]: colours.
//! - [`summary`]: what a page says, out of [`timeline`], [`peak`] and [`decisions`]. [`units`]: numbers in words.
//! - [`ledger`]: what is where, from event to event. [`moments`]: when. [`scene`]: what for.

mod charts;
mod chrome;
mod decisions;
mod html;
mod lane_chart;
mod ledger;
mod memory_chart;
mod memory_viz;
mod moments;
mod peak;
mod scene;
mod summary;
mod theme;
mod timeline;
mod units;

pub use charts::write_svg;
pub use chrome::write_chrome;
pub use html::write_html;
pub use memory_viz::{write_memory_viz_json, write_memory_viz_pickle};
pub use summary::Report;
