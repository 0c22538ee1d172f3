//! Recordings for people: files for the viewers of others, and a page of our own.
//!
//! - `write_chrome`: Chrome's trace events, for Perfetto.
//! - `write_memory_viz_pickle`, `write_memory_viz_json`: memory snapshots, for PyTorch's viewer.
//! - [`Report`]: a run summed up; `write_html` makes a page of it, `write_svg` an image of its charts.
//!
//! Within: `ledger` says what is where from event to event, `moments` when, `scene` what for. `summary` is a report, out of
//! `timeline`, `peak` and `decisions`. `html` is the page, `svg` the image; `memory_chart` and `lane_chart` are their charts, and
//! `charts` is what these share. `theme` has the colours, `units` puts numbers in words.

mod charts;
mod chrome;
mod comparison;
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
mod svg;
mod theme;
mod timeline;
mod units;

pub use chrome::write_chrome;
pub use comparison::write_comparison;
pub use html::write_html;
pub use memory_viz::{write_memory_viz_json, write_memory_viz_pickle};
pub use summary::Report;
pub use svg::write_svg;
