//! `info`: what the CUDA engine finds on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use burn_overcommit::Variable;
use burn_overcommit::engine::cuda::{FoundLibrary, found_libraries};
use clap::Args;
use serde_json::json;

use crate::json;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// Folders to look in before all others, separated as in PATH; by default those of OVERCOMMIT_CUDA_LIBRARIES.
    #[arg(long)]
    libraries: Option<PathBuf>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let from_environment = || std::env::var_os(Variable::CudaLibraries.name()).map(PathBuf::from);
    let folders = options.libraries.clone().or_else(from_environment);
    let libraries = found_libraries(folders.as_deref());
    if options.json {
        let rows = libraries.iter().map(|(name, found)| match found {
            Ok(found) => json!({
                "library": name, "file": found.file, "version": found.version, "missing_functions": found.missing,
            }),
            Err(reason) => json!({ "library": name, "not_found": reason }),
        });
        json::print_list("libraries", &rows.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&libraries);
    Ok(ExitCode::SUCCESS)
}

/// Prints what is found, or where it was looked for.
fn print(libraries: &[(&'static str, Result<FoundLibrary, String>)]) {
    for (name, found) in libraries {
        match found {
            Ok(found) => println!("{name} {found}"),
            Err(reason) => println!("{name}: {reason}"),
        }
    }
}

/// Prints what is found by default.
pub fn print_found() {
    let folders = std::env::var_os(Variable::CudaLibraries.name()).map(PathBuf::from);
    print(&found_libraries(folders.as_deref()));
}
