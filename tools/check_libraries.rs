//! Opens NVIDIA's libraries and looks for every function that the engine calls: `scripts/check-libraries` fetches them and runs this.

use std::path::PathBuf;
use std::process::ExitCode;

use burn_overcommit::engine::cuda::found_libraries;
use clap::Parser;

/// Opens cuBLASLt, cuDNN and NVRTC and looks for every function that the engine calls. The driver is left out: it comes with a GPU.
#[derive(Parser)]
struct Options {
    /// The folders of the libraries, separated as in PATH.
    folders: PathBuf,
}

fn main() -> ExitCode {
    let Options { folders } = Options::parse();
    let known: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let libraries = found_libraries(Some(&folders)).into_iter().filter(|(name, _)| *name != "cuda");
    let (mut symbols, mut missing, mut is_good) = (0, 0, true);
    for (name, found) in libraries {
        match found {
            Ok(found) => {
                let file = found.file.unwrap_or_default();
                let version = found.version.unwrap_or_default();
                println!("{name} {version}: {} functions, {}", found.symbols, file.display());
                found.missing.iter().for_each(|symbol| println!("{name} has no {symbol}"));
                if !known.iter().any(|folder| file.parent() == Some(folder)) {
                    println!("{name} is not that of the folders");
                    is_good = false;
                }
                symbols += found.symbols;
                missing += found.missing.len();
            }
            Err(reason) => {
                println!("{reason}");
                is_good = false;
            }
        }
    }
    println!("functions: {symbols} missing: {missing}");
    if is_good && missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
