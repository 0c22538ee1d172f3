//! `info`: what the CUDA engine finds on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use burn_overcommit::Variable;
use burn_overcommit::engine::cuda::found_libraries;
use clap::Args;
use serde_json::json;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// Folders to look in before all others, separated as in PATH; by default those of OVERCOMMIT_CUDA_LIBRARIES.
    #[arg(long)]
    libraries: Option<PathBuf>,
    /// One JSON array.
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
        println!("{:#}", json!(rows.collect::<Vec<_>>()));
        return Ok(ExitCode::SUCCESS);
    }
    for (name, found) in &libraries {
        match found {
            Ok(found) => {
                let version = found.version.as_deref().unwrap_or("of an unknown version");
                let file = found.file.as_ref().map_or("found".into(), |file| file.display().to_string());
                println!("{name} {version}: {file}");
                if !found.missing.is_empty() {
                    println!("  lacks {}", found.missing.join(", "));
                }
            }
            Err(reason) => println!("{name}: {reason}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
