//! `serve`: hosts devices for Burn's remote client, by the program of a face.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, anyhow};
use burn_overcommit::serve;
use clap::{Args, ValueEnum};

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// The Burn of the clients: each version has a protocol of its own.
    #[arg(long, default_value = "0.23")]
    burn: Version,
    #[command(flatten)]
    options: serve::Options,
}

/// A Burn that has a remote client.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Version {
    #[value(name = "0.22")]
    V022,
    #[value(name = "0.23")]
    V023,
}

/// Becomes the program of the face, which has the same options but for `--burn`.
pub fn run(options: &Options) -> Result<ExitCode> {
    let version = match options.burn {
        Version::V022 => "0.22",
        Version::V023 => "0.23",
    };
    let name = format!("overcommit-serve-{}", version.replace('.', ""));
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(&name));
    let program = beside.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from(&name));
    // Only a program that cannot be started comes back.
    let error = Command::new(program).args(passed_on(std::env::args_os().skip(2))).exec();
    Err(anyhow!(
        "{name}: {error}; it is a program of its own: cargo install --path faces/burn-{version} --no-default-features --features \
         host,cuda,serve"
    ))
}

/// The arguments without `--burn` and its value.
fn passed_on(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut is_value = false;
    arguments
        .filter(|argument| {
            let is_burn = argument == "--burn";
            let is_passed = !is_value && !is_burn && !argument.to_string_lossy().starts_with("--burn=");
            is_value = is_burn;
            is_passed
        })
        .collect()
}
