//! The disk tier: how fast an engine writes and reads it beside `fio`, and how long the steps of networks take on the simulation whose
//! host memory ends early.
//!
//! `cargo bench --bench tiers -- [--folder FOLDER | --only steps]`. The traffic is as fast as the disk under the folder, so
//! that only its ratio to `fio`'s in the same run says something; the steps are simulated, and the same everywhere.

#[path = "../support/results.rs"]
mod results;
mod steps;
mod traffic;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::results::Output;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    Traffic,
    Steps,
}

#[derive(Parser)]
struct Options {
    /// The folder on the disk whose traffic is measured.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// The bytes that are written and read, in GiB.
    #[arg(long, default_value_t = 2)]
    gib: usize,
    /// Only one of the parts.
    #[arg(long, value_enum)]
    only: Option<Part>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let mut cells = Vec::new();
    if options.only != Some(Part::Steps) {
        cells.extend(traffic::run(&options.folder, options.gib));
    }
    if options.only != Some(Part::Traffic) {
        cells.extend(steps::run());
    }
    options.output.write(cells);
}
