//! Recorded programs and runs: the requests of a program, and the decisions of the pool.
//!
//! - `event` lists the kinds of events; the pool records them in a `journal`.
//! - `program` is the part that a replay needs, checked; `iterations` finds the loop in it. `file` reads and writes traces, a line of JSON for each
//!   event, by `lines`.
//! - `simrd` reads the logs of the DTR simulator.
//!
//! ```
//! use burn::tensor::Tensor;
//! use burn_overcommit::trace::Event;
//! use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, recording};
//!
//! let device = OvercommitDevice::Host(0);
//! configure(&device, Config::new().record())?;
//! Tensor::<Overcommit, 1>::ones([8], &device).into_data();
//! let events = recording(&device)?.events;
//! assert!(events.iter().any(|event| matches!(event, Event::Op(op) if op.outputs[0].bytes == 32)));
//! # Ok::<(), burn_overcommit::Error>(())
//! ```

mod event;
mod file;
mod iterations;
mod journal;
mod lines;
mod program;
mod simrd;

pub use event::{Copied, Event, Evicted, Header, How, Made, OpEvent, Ran, Recomputed};
pub(crate) use file::TraceFile;
pub use iterations::Iterations;
pub use journal::{Journal, Recording};
pub use program::{Program, TraceError};
