//! What the commands share: a trace, a device, and how they are told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
use burn_overcommit::trace::{Program, Recording};
use burn_overcommit::{Amount, OvercommitDevice, Placement, Policy, Profile};
use clap::Args;
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
    /// Whether device memory is mapped by page [default: true for budgets of 64 pages and more].
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
            profile.props.link_bytes_per_second = gigabytes * 1e9;
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
