//! `report`: a recorded run as it was.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use burn_overcommit::report::Report;
use clap::Args;

use crate::json;
use crate::options::{recording, spinner, title};
use crate::outputs::Outputs;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// A trace that `record` wrote, or `replay --trace`.
    file: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
    /// The report's figures as one JSON object, and no page unless one is asked for.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let path = options.file.display();
    let spinner = spinner(format!("reading {path}"));
    let otherwise = format!("overcommit replay {path} --report run.html");
    let recording = recording(&options.file, &otherwise)?;
    let title = title(&options.file);
    if options.outputs.is_empty() && !options.json {
        let page = Outputs { report: Some(options.file.with_extension("html")), ..Outputs::default() };
        page.write(&recording, None, &title)?;
    } else {
        options.outputs.write(&recording, None, &title)?;
    }
    spinner.finish_and_clear();
    if options.json {
        json::print(&Report::new(&recording, None).titled(title))?;
    }
    Ok(ExitCode::SUCCESS)
}
