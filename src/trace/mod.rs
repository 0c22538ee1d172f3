//! Recorded programs and runs: the requests of a program, and the decisions of the pool.
//!
//! - `event` lists the kinds of events; the pool records them in a `journal`.
//! - `program` is the part that a replay needs, checked. `file` reads and writes traces, a line of JSON for each
//!   event, by `lines`.
//! - `simrd` reads the logs of the DTR simulator.

mod event;
mod file;
mod journal;
mod lines;
mod program;
mod simrd;

pub use event::{Copied, Event, Evicted, Header, How, Made, OpEvent, Ran, Recomputed};
pub use journal::{Journal, Recording};
pub use program::{Program, TraceError};
