//! `record`: a trace of a network's training, or of any program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use burn_overcommit::trace::Recording;
use burn_overcommit::{Config, OvercommitDevice, Policy, Variable, configure, recording};
use bytesize::ByteSize;
use clap::Args;

use crate::options::{bar, spinner};
use crate::training::TrainingOptions;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// Where the trace goes.
    #[arg(short, long, default_value = "trace.jsonl")]
    output: PathBuf,
    /// A network of the papers, such as resnet-50, vgg-416, densenet-121, unet, lstm-medium, gpt2-xl or gpt-48x2048.
    #[arg(long, required_unless_present = "command", conflicts_with = "command")]
    model: Option<String>,
    #[command(flatten)]
    training: TrainingOptions,
    /// Training steps.
    #[arg(long, default_value_t = 2)]
    steps: usize,
    /// Where the network is trained: a device that `devices` lists, without data and within seconds, or host:0, with data.
    #[arg(long, default_value = "sim:rtx4090", value_parser = device)]
    device: OvercommitDevice,
    /// Device memory that it may use, if not nine tenths of the device's.
    #[arg(long)]
    budget: Option<String>,
    /// The memory policy.
    #[arg(long, default_value_t)]
    policy: Policy,
    /// A program that uses this backend, and its arguments. Its first device is recorded, as its own settings have it.
    #[arg(last = true)]
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
    let status = std::process::Command::new(program)
        .args(arguments)
        .env(Variable::Trace.name(), path)
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
    let device = &options.device;
    let mut config = Config::new().policy(options.policy).record();
    if let Some(budget) = &options.budget {
        config = config.budget(budget);
    }
    configure(device, config)?;
    let bar = bar(options.steps, "training");
    let is_done = options.training.train(&spec, device, options.steps, || bar.inc(1));
    bar.finish_and_clear();
    ensure!(is_done, "{name} does not run on {device} with these settings");
    let spinner = spinner("collecting");
    let recording = recording(device)?;
    spinner.finish_and_clear();
    Ok(recording)
}
