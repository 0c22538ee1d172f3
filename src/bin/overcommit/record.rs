//! `record`: a trace of a network's training, or of any program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use burn::backend::Autodiff;
use burn::optim::{AdamConfig, Optimizer, SgdConfig};
use burn_overcommit::trace::Recording;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, Variable, configure, note, recording};
use burn_overcommit_networks::{Network, Spec, training_step};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};

use crate::options::{bar, spinner};

type Training = Autodiff<Overcommit>;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// Where the trace goes.
    #[arg(short, long, default_value = "trace.jsonl")]
    output: PathBuf,
    /// A network of the papers, such as resnet-50, vgg-416, densenet-121, unet, lstm-medium, gpt2-xl or gpt-48x2048.
    #[arg(long, required_unless_present = "command", conflicts_with = "command")]
    model: Option<String>,
    /// Images or sequences a step learns from.
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Side of the images, if not the paper's.
    #[arg(long)]
    side: Option<usize>,
    /// Length of the sequences, if not the paper's.
    #[arg(long)]
    length: Option<usize>,
    /// Training steps.
    #[arg(long, default_value_t = 2)]
    steps: usize,
    /// What the steps are taken by.
    #[arg(long, value_enum, default_value_t = Rule::Adam)]
    optimizer: Rule,
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

/// How weights follow gradients.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rule {
    Adam,
    Sgd,
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
        options.steps > 0 && options.batch > 0,
        "a recording is of at least one step, on at least one sample"
    );
    let name = options.model.as_deref().unwrap_or_default();
    let spec = Spec::named(name, options.side, options.length).map_err(anyhow::Error::msg)?;
    let device = &options.device;
    let mut config = Config::new().policy(options.policy).record();
    if let Some(budget) = &options.budget {
        config = config.budget(budget);
    }
    configure(device, config)?;
    let result = std::panic::catch_unwind(|| match options.optimizer {
        Rule::Adam => steps(options, spec, AdamConfig::new().init()),
        Rule::Sgd => steps(options, spec, SgdConfig::new().init()),
    });
    // The message has been printed where it happened; what ran until then is a program too.
    ensure!(result.is_ok(), "{name} does not run on {device} with these settings");
    let spinner = spinner("collecting");
    let recording = recording(device)?;
    spinner.finish_and_clear();
    Ok(recording)
}

fn steps(options: &Options, spec: Spec, mut optimizer: impl Optimizer<Network<Training>, Training>) {
    let device = &options.device;
    let bar = bar(options.steps, "training");
    let mut network = spec.network::<Training>(device);
    for step in 0..options.steps {
        note(device, &format!("step {}", step + 1)).expect("the device is configured");
        let sample = spec.sample(options.batch, device);
        (network, _) = training_step(network, &mut optimizer, 1e-3, sample);
        bar.inc(1);
    }
    bar.finish_and_clear();
}
