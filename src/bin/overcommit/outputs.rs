//! Files that a run can be written to.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use burn_overcommit::replay::Outcome;
use burn_overcommit::report::{
    Report, write_chrome, write_html, write_memory_viz_json, write_memory_viz_pickle, write_svg,
};
use burn_overcommit::trace::Recording;
use clap::Args;

use crate::options::file_ending_in;

/// Where what is asked for goes.
#[derive(Debug, Default, Args)]
pub struct Outputs {
    /// A report as one page of HTML, or its charts if the name ends in .svg.
    #[arg(long, value_name = "FILE", value_parser = file_ending_in(&["html", "htm", "svg"]))]
    pub report: Option<PathBuf>,
    /// A Chrome trace, which Perfetto opens.
    #[arg(long, value_name = "FILE", value_parser = file_ending_in(&["json"]))]
    pub chrome: Option<PathBuf>,
    /// A memory snapshot for PyTorch's memory_viz: a pickle, or JSON if the name ends in .json.
    #[arg(long, value_name = "FILE", value_parser = file_ending_in(&["pickle", "pkl", "json"]))]
    pub memory_viz: Option<PathBuf>,
    /// A trace of this very run, with all that was done for it.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

impl Outputs {
    /// Whether none is asked for.
    pub fn is_empty(&self) -> bool {
        [&self.report, &self.chrome, &self.memory_viz, &self.trace].iter().all(|path| path.is_none())
    }

    /// Writes those that are asked for. `title`: of the report.
    pub fn write(&self, recording: &Recording, outcome: Option<&Outcome>, title: &str) -> Result<()> {
        if let Some(path) = &self.report {
            let report = Report::new(recording, outcome).titled(title);
            match ends_in(path, "svg") {
                true => to_file(path, |file| write_svg(&report, file))?,
                false => to_file(path, |file| write_html(&report, file))?,
            }
        }
        if let Some(path) = &self.chrome {
            to_file(path, |file| write_chrome(recording, file))?;
        }
        if let Some(path) = &self.memory_viz {
            match ends_in(path, "json") {
                true => to_file(path, |file| write_memory_viz_json(recording, file))?,
                false => to_file(path, |file| write_memory_viz_pickle(recording, file))?,
            }
        }
        if let Some(path) = &self.trace {
            recording.save(path)?;
        }
        Ok(())
    }
}

fn ends_in(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Makes a file, and says so.
pub fn to_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<()> {
    let write_all = || {
        let mut file = BufWriter::new(File::create(path)?);
        write(&mut file)?;
        file.flush()
    };
    write_all().with_context(|| path.display().to_string())?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
