//! Data parallel training on several machines, each process with a budget of its own.
//!
//! A node takes its part of each batch, and the orchestrator adds the gradients of all nodes. See the book's chapter *Several machines*.

pub mod checkpoint;
pub mod exchange;
pub mod gradients;
pub mod launch;
pub mod network;
pub mod node;
pub mod orchestrator;
pub mod protocol;

mod error;

pub use error::Error;

/// Says a line on standard error, in one piece: several processes share it.
pub fn say(line: &str) {
    use std::io::Write;
    // There is nobody to tell that nobody listens.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
