//! Compiles every kernel with NVRTC, without a GPU: `scripts/check-kernels` fetches the compiler and runs this.

mod chosen;

use std::num::ParseIntError;
use std::process::ExitCode;
use std::thread::available_parallelism;

use burn_overcommit::engine::cuda::{check_kernels, fill_cache};
use chosen::Chosen;
use clap::Parser;

/// Compiles every kernel with NVRTC for some architectures and compares its arguments with the host engine's.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    chosen: Chosen,
    /// Compute capabilities without their point.
    #[arg(long, value_delimiter = ',', default_value = "75,80,90,100,120", value_parser = number)]
    architectures: Vec<u32>,
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
    let (folder, selection) =
        (options.chosen.folder.as_deref(), options.chosen.selection(&options.architectures));
    if options.fill_cache {
        return match fill_cache(folder, &selection, threads) {
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
    let report = match check_kernels(folder, &selection, threads) {
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
