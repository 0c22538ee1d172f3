//! `completions` and `man`: what shells and `man` know of this program.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// See the command's help.
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// The shell.
    shell: Shell,
}

/// See the command's help.
#[derive(Debug, Args)]
pub struct ManOptions {
    /// The folder that the pages go to, such as ~/.local/share/man/man1.
    folder: PathBuf,
}

pub fn print_completions(options: &CompletionsOptions, mut program: Command) -> Result<ExitCode> {
    let name = program.get_name().to_string();
    clap_complete::generate(options.shell, &mut program, name, &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}

pub fn write_pages(options: &ManOptions, program: Command) -> Result<ExitCode> {
    let folder = &options.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(program, folder));
    written.with_context(|| folder.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}
