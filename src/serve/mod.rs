//! `overcommit serve`: devices for Burn's remote client, each client with a process and a budget of its own.
//!
//! One process supervises. Each client has an address, and behind it a worker: a process that hosts one device by the server of the
//! face's Burn. What a client does to its worker, other clients do not feel; a worker that ends is followed by another, which takes
//! over the listening socket, so that no connection is refused meanwhile.
//!
//! - `supervisor` has the process that supervises, and `worker` a worker.
//! - `door` is what connections go through on their way to Burn's server.

mod door;
mod options;
mod supervisor;
mod worker;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

#[cfg(fuzzing)]
pub use door::pass_stranger;
use options::Program;
pub use options::{Options, Worker};

/// The program of a face: `host` serves a worker's clients by the server of the face's Burn, until it is told to end.
pub fn run<E: Error + Send + Sync + 'static>(host: impl FnOnce(Worker) -> Result<(), E>) -> ExitCode {
    let Program { options } = Program::parse();
    let result = if options.worker { worker::work(&options, host) } else { supervisor::supervise(&options) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overcommit serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}
