//! What the commands share: a trace, a device, and how they are told.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
use burn_overcommit::trace::{Program, Recording};
use burn_overcommit::{Amount, OvercommitDevice, Placement, Policy, Profile};
use clap::Args;
use comfy_table::{ContentArrangement, Table};
use console::Term;
use indicatif::{ProgressBar, ProgressStyle};

/// A trace, and where and how often it runs.
#[derive(Debug, Args)]
pub struct Source {
    /// A trace that `record` wrote, or a log of the DTR simulator.
    pub file: PathBuf,
    /// The device: a key that `devices` lists.
    #[arg(long, default_value = "rtx4090")]
    pub device: String,
    /// The link between device and host instead of the device's own, in gigabytes (10^9) a second, each way.
    #[arg(long, value_name = "X", value_parser = positive)]
    pub link_gbps: Option<f64>,
    /// How often to run it, as a training loop; figures are the last iteration's [default: 8 for the simulator's logs, which
    /// hold one iteration, 1 for other traces].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: Option<u32>,
}

/// What a policy may do, and how memory is laid out.
#[derive(Debug, Args)]
pub struct EvictionOptions {
    /// Keep nothing in host memory: what cannot be recomputed stays.
    #[arg(long)]
    pub no_offload: bool,
    /// Recompute nothing.
    #[arg(long)]
    pub no_recompute: bool,
    /// Tell the policy the whole trace first, which no policy has in practice. One that plans has its plan of a loop at once.
    #[arg(long)]
    pub oracle: bool,
    /// How addresses are chosen: smartpool, in plans, or best-fit alone.
    #[arg(long, value_parser = placement)]
    pub placement: Option<Placement>,
    /// Whether device memory is mapped by page [default: true for budgets of 48 pages and more].
    #[arg(long)]
    pub page_mapping: Option<bool>,
}

fn placement(text: &str) -> Result<Placement, String> {
    text.parse().map_err(|()| "expected smartpool or best-fit".into())
}

impl EvictionOptions {
    /// The settings of a replay with these options.
    pub fn settings(&self, budget_bytes: usize, policy: Policy) -> Settings {
        Settings {
            policy,
            offload: !self.no_offload,
            recompute: !self.no_recompute,
            oracle: self.oracle,
            placement: self.placement,
            page_mapping: self.page_mapping,
            ..Settings::new(budget_bytes)
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 && f64::is_finite(value) => Ok(value),
        _ => Err("expected a number above zero".into()),
    }
}

/// An amount of memory on the command line.
pub fn amount(text: &str) -> Result<Amount, String> {
    text.trim().parse().map_err(|expected: String| format!("expected {expected}"))
}

/// A file on the command line whose name has one of these endings, or none.
pub fn file_ending_in(endings: &'static [&'static str]) -> impl Fn(&str) -> Result<PathBuf, String> + Clone {
    move |name| {
        let path = PathBuf::from(name);
        let is_one = |found: &OsStr| endings.iter().any(|ending| found.eq_ignore_ascii_case(ending));
        match path.extension().is_none_or(is_one) {
            true => Ok(path),
            false => Err(format!("expected a name that ends in .{}", endings.join(" or ."))),
        }
    }
}

/// The text of an error with this program's flags in place of the library's settings. A setting that has no flag goes by its
/// environment variable.
pub fn in_flags(text: &str) -> String {
    let replaced = [
        ("Config::budget or OVERCOMMIT_BUDGET", "--budget"),
        ("Config::budget_bytes", "--budget"),
        ("Config::budget", "--budget"),
        ("Config::host_limit or ", ""),
        ("Config::disk or ", ""),
        ("Config::peers or ", ""),
        ("Config::offload", "--no-offload"),
    ];
    replaced.into_iter().fold(text.to_string(), |text, (setting, flag)| text.replace(setting, flag))
}

/// A simulated device by its key, with or without `sim:`.
pub fn profile(key: &str) -> Result<Profile> {
    let device: OvercommitDevice =
        format!("sim:{}", key.trim_start_matches("sim:")).parse().map_err(anyhow::Error::msg)?;
    match device {
        OvercommitDevice::Sim(profile) => profile.get().context("the profile is gone"),
        _ => unreachable!("a device of that name is a simulation"),
    }
}

impl Source {
    /// The program in the file.
    pub fn program(&self) -> Result<Program> {
        let program = Program::open(&self.file)?;
        ensure!(program.ops() > 0, "{}: there are no ops in it", self.file.display());
        Ok(program)
    }

    /// The device, with the link that was asked for.
    pub fn profile(&self) -> Result<Profile> {
        let mut profile = profile(&self.device)?;
        if let Some(gigabytes) = self.link_gbps {
            profile.props.offload_bytes_per_second = gigabytes * 1e9;
            profile.props.fetch_bytes_per_second = gigabytes * 1e9;
        }
        Ok(profile)
    }

    /// The program on the device, run once without a limit.
    pub fn replay<'a>(&self, program: &'a Program) -> Result<Replay<'a>> {
        let iterations =
            self.iterations.map_or(if program.loops { ITERATIONS } else { 1 }, |count| count as usize);
        Ok(Replay::new(program, self.profile()?, iterations)?)
    }
}

/// More memory than any program takes.
pub const UNLIMITED_BYTES: usize = 1 << 49;

/// The recorded run in a file. `otherwise` says what can be done with a file that tells only what a program asks for.
pub fn recording(file: &Path, otherwise: &str) -> Result<Recording> {
    Recording::open(file).or_else(|error| match Program::open(file) {
        Ok(_) => {
            bail!("{}: the file tells what a program asks for, not how it ran: {otherwise}", file.display())
        }
        Err(_) => Err(error.into()),
    })
}

/// What a report on a trace is called.
pub fn title(file: &Path) -> String {
    file.file_stem().map_or_else(|| file.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// The width that lines should have: what COLUMNS says, or the terminal's. `None` where output goes elsewhere.
pub fn width() -> Option<u16> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(|| Term::stdout().size_checked().map(|(_, columns)| columns))
}

/// A table that is no wider than lines should be.
pub fn table(preset: &str) -> Table {
    let mut table = Table::new();
    table.load_preset(preset);
    if let Some(width) = width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table
}

/// Shown while nothing else can be said than that it goes on.
pub fn spinner(message: impl Into<String>) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(message.into());
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

/// Shown while `count` things are done, one after the other.
pub fn bar(count: usize, message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}").expect("a valid template");
    ProgressBar::new(count as u64).with_style(style).with_message(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_flags() {
        let told = in_flags(
            "raise it (Config::budget or OVERCOMMIT_BUDGET), or the limit (Config::host_limit or OVERCOMMIT_HOST_LIMIT)",
        );
        assert_eq!(told, "raise it (--budget), or the limit (OVERCOMMIT_HOST_LIMIT)");
        assert_eq!(in_flags("Config::budget: \"lots\" was given"), "--budget: \"lots\" was given");
    }

    #[test]
    fn files_of_another_kind_are_refused() {
        let page = file_ending_in(&["html", "svg"]);
        for name in ["run.html", "run.SVG", "run", "/dev/stdout"] {
            assert_eq!(page(name), Ok(name.into()));
        }
        assert_eq!(page("x.pdf"), Err("expected a name that ends in .html or .svg".into()));
    }
}
