//! What is written of a recording for other programs and for people: its structure, as their formats are published.

mod chrome;
mod memory_use;
mod memory_viz;
mod page;
mod run;
