//! `record`: a trace of a network's training, or of any program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use burn_overcommit::trace::Recording;
use burn_overcommit::{Config, OvercommitDevice, Policy, SimProfile, Variable, configure, recording};
use bytesize::ByteSize;
use clap::Args;

use crate::options::{bar, spinner};
use crate::training::TrainingOptions;

/// The device on which a network is recorded by default.
const DEVICE: &str = "rtx4090";

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// Where the trace goes.
    #[arg(short, long, default_value = "trace.jsonl")]
    output: PathBuf,
    /// A network of the papers, such as resnet-50, vgg-416, densenet-121, unet, lstm-medium, gpt2-xl or gpt-48x2048.
    #[arg(long, required_unless_present = "command")]
    model: Option<String>,
    #[command(flatten)]
    training: TrainingOptions,
    /// Training steps.
    #[arg(long, default_value_t = 2)]
    steps: usize,
    /// Where it runs: a device that `devices` lists, without data and within seconds, or host:0, with data [default: sim:rtx4090 for
    /// a network; a program's own].
    #[arg(long, value_parser = device)]
    device: Option<OvercommitDevice>,
    /// Device memory that it may use, if not nine tenths of the device's.
    #[arg(long)]
    budget: Option<String>,
    /// The memory policy [default: auto].
    #[arg(long)]
    policy: Option<Policy>,
    /// A program that uses this backend, and its arguments. Its first device is recorded. Device, budget and policy go to it as
    /// environment variables, which hold unless the program sets its own.
    #[arg(last = true, conflicts_with_all = ["model", "TrainingOptions", "steps"])]
    command: Vec<String>,
}

fn device(text: &str) -> Result<OvercommitDevice, String> {
    text.parse().or_else(|error| format!("sim:{text}").parse().map_err(|_: String| error))
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let code = match options.command.split_first() {
        Some((program, arguments)) => watch(program, arguments, options)?,
        None => {
            train(options)?.save(&options.output)?;
            ExitCode::SUCCESS
        }
    };
    let recording = Recording::open(&options.output)
        .context("the program left no whole trace: did it use this backend?")?;
    let program = recording.program();
    eprintln!(
        "{}: {} ops on {}, at most {} live at once",
        options.output.display(),
        program.ops(),
        recording.header.device,
        ByteSize(program.live_peak_bytes() as u64)
    );
    Ok(code)
}

/// Runs a program that records itself.
fn watch(program: &str, arguments: &[String], options: &Options) -> Result<ExitCode> {
    // A trace of an earlier run is not this one's.
    if options.output.exists() {
        std::fs::remove_file(&options.output).with_context(|| options.output.display().to_string())?;
    }
    let path = std::path::absolute(&options.output)?;
    let settings = [
        (Variable::Device, options.device.map(|device| device.to_string())),
        (Variable::Budget, options.budget.clone()),
        (Variable::Policy, options.policy.map(|policy| policy.to_string())),
    ];
    let status = std::process::Command::new(program)
        .args(arguments)
        .env(Variable::Trace.name(), path)
        .envs(settings.into_iter().filter_map(|(variable, value)| Some((variable.name(), value?))))
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

fn train(options: &Options) -> Result<Recording> {
    ensure!(
        options.steps > 0 && options.training.batch > 0,
        "a recording is of at least one step, on at least one sample"
    );
    let name = options.model.as_deref().unwrap_or_default();
    let spec = options.training.spec(name)?;
    let by_default = OvercommitDevice::Sim(SimProfile::named(DEVICE).context("the device is in the table")?);
    let device = &options.device.unwrap_or(by_default);
    let mut config = Config::new().policy(options.policy.unwrap_or_default()).record();
    if let Some(budget) = &options.budget {
        config = config.budget(budget);
    }
    configure(device, config)?;
    let bar = bar(options.steps, "training");
    let trained = options.training.train(&spec, device, options.steps, || bar.inc(1));
    bar.finish_and_clear();
    trained.with_context(|| format!("{name} does not run on {device} with these settings"))?;
    let spinner = spinner("collecting");
    let recording = recording(device)?;
    spinner.finish_and_clear();
    Ok(recording)
}
