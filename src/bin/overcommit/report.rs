//! `report`: a recorded run as it was.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::options::{recording, spinner};
use crate::outputs::Outputs;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// A trace that `record` wrote, or `replay --trace`.
    file: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let path = options.file.display();
    let spinner = spinner(format!("reading {path}"));
    let otherwise = format!("overcommit replay {path} --report run.html");
    let recording = recording(&options.file, &otherwise)?;
    let title = crate::options::title(&options.file);
    if options.outputs.is_empty() {
        let page = Outputs { report: Some(options.file.with_extension("html")), ..Outputs::default() };
        page.write(&recording, None, &title)?;
    } else {
        options.outputs.write(&recording, None, &title)?;
    }
    spinner.finish_and_clear();
    Ok(ExitCode::SUCCESS)
}
