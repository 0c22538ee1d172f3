//! Compiles every kernel with NVRTC, without a GPU: `scripts/check-kernels` fetches the compiler and runs this.

use std::num::ParseIntError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

use burn_overcommit::engine::cuda::{Selection, check_kernels, fill_cache};
use clap::Parser;

/// Compiles every kernel with NVRTC for some architectures and compares its arguments with the host engine's.
#[derive(Parser)]
struct Options {
    /// The folder that NVRTC is in; by default it is looked for.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Compute capabilities without their point.
    #[arg(long, value_delimiter = ',', default_value = "75,80,90,100,120", value_parser = number)]
    architectures: Vec<u32>,
    /// Files of `kernels/` without their ending; by default all.
    #[arg(long, value_delimiter = ',')]
    files: Vec<String>,
    /// Of each file one type of element alone, another for each architecture.
    #[arg(long)]
    sample: bool,
    /// Keeps what is made where the engine looks for it, in burn-overcommit/kernels below XDG_CACHE_HOME or ~/.cache, and compares nothing.
    #[arg(long)]
    fill_cache: bool,
}

fn number(text: &str) -> Result<u32, ParseIntError> {
    text.parse()
}

fn main() -> ExitCode {
    let options = Options::parse();
    let threads = available_parallelism().map_or(1, usize::from);
    let Options { folder, architectures, files, sample, fill_cache: fills } = options;
    let selection = Selection { architectures, files, sample };
    if fills {
        return match fill_cache(folder.as_deref(), &selection, threads) {
            Ok(count) => {
                println!("kernels: cached={count}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let report = match check_kernels(folder.as_deref(), &selection, threads) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    report.messages.iter().for_each(|message| println!("{message}"));
    println!("{report}");
    match report.failed + report.mismatches {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
