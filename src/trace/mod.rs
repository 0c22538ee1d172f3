//! Recorded programs and runs: what a program asked for, and what the pool did for it.
//!
//! - `event`: what can happen. `journal`: where the pool notes it.
//! - `program`: the part that a replay needs, checked. `file`: traces as files, a line of JSON an event, read by `lines`.
//! - `simrd`: the logs of the DTR simulator.

mod event;
mod file;
mod journal;
mod lines;
mod program;
mod simrd;

pub use event::{Copied, Event, Evicted, Header, How, Made, OpEvent, Ran, Recomputed};
pub use journal::{Journal, Recording};
pub use program::{Program, TraceError};
