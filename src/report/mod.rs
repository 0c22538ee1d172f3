//! Recordings for people: files for other projects' viewers, and a page of this crate's own.
//!
//! - `write_chrome` writes Chrome's trace events, for Perfetto.
//! - `write_memory_viz_pickle` and `write_memory_viz_json` write memory snapshots, for PyTorch's viewer.
//! - [`Report`] sums up a run; `write_html` makes a page of it, and `write_svg` an image of its charts. [`Explanation`] says in
//!   words why it takes as long as it does, and [`MemoryUse`] what holds its memory.
//!
//! Inside, `ledger` follows the place of each storage from event to event, `moments` gives events their times, and
//! `scene` finds the work that an event is for, `modules` the module that it belongs to, and `segments` the addresses that
//! are mapped. `summary` makes a report of `timeline`, `peak`, `decisions` and `leaving`.
//! `html` is the page and `svg` the image; both show `memory_chart` and `lane_chart`, which share `charts`. `comparison` and
//! `grid` are charts of many runs. `theme` has the colours, `units` formats numbers, and `text` makes tables.
//!
//! ```
//! use burn_overcommit::report::{Report, write_svg};
//! use burn_overcommit::trace::Recording;
//!
//! let recording = Recording::default(); // or Recording::open("trace.jsonl")?
//! let report = Report::new(&recording, None).titled("nothing");
//! let mut charts = Vec::new();
//! write_svg(&report, &mut charts)?;
//! assert!(charts.starts_with(b"<svg"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod charts;
mod chrome;
mod comparison;
mod decisions;
mod explanation;
mod grid;
mod html;
mod lane_chart;
mod leaving;
mod ledger;
mod memory_chart;
mod memory_use;
mod memory_viz;
mod modules;
mod moments;
mod peak;
mod scene;
mod segments;
mod summary;
mod svg;
mod text;
mod theme;
mod timeline;
mod units;

pub use chrome::write_chrome;
pub use comparison::write_comparison;
pub use explanation::Explanation;
pub use grid::{GridPoint, write_grid};
pub use html::write_html;
pub use leaving::Leaving;
pub use memory_use::{Category, HeldGroup, Holding, MemoryUse};
pub use memory_viz::{write_memory_viz_json, write_memory_viz_pickle};
pub use summary::Report;
pub use svg::write_svg;
