//! `overcommit`: records the memory traffic of programs, and replays it under other devices, budgets and policies.

mod compare;
mod devices;
mod explain;
#[cfg(feature = "cuda")]
mod info;
mod json;
mod more_memory;
mod options;
mod outputs;
mod plan;
mod record;
mod replay;
mod report;
#[cfg(unix)]
mod serve;
mod shell;
mod training;

use std::process::ExitCode;

use burn_overcommit::Variable;
use clap::{CommandFactory, Parser, Subcommand};

/// The exit status if the command succeeded and the budget is too small.
const INFEASIBLE: u8 = 3;

/// Records what training asks of a GPU's memory, and replays it, without a GPU, on other devices, in less memory, under
/// other policies.
#[derive(Debug, Parser)]
#[command(name = "overcommit", version, after_help = EXAMPLES)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  overcommit record --model resnet-50 --batch 64 --device v100 -o resnet.jsonl
  overcommit record -o mine.jsonl -- cargo run --release --bin train
  overcommit replay resnet.jsonl --device rtx4090 --budget 50%
  overcommit replay resnet32.log --budget '4 GiB' --policy recompute --no-offload --json
  overcommit replay resnet.jsonl --device v100 --budget 2GiB --report run.html --chrome run.json
  overcommit compare resnet.jsonl --device rtx4090 --plot policies.svg
  overcommit plan gpt2-medium --batch 4 --device rtx4090,h100 --grid time.svg
  overcommit explain resnet.jsonl
  overcommit explain resnet.jsonl --device rtx4090 --budget 50%
  overcommit report resnet.jsonl
  overcommit devices
  overcommit info
  overcommit serve --device cuda:0 --clients 4 --budget '10 GiB'

Exit codes: 0 done, 1 failed, 2 not understood, 3 done, and the budget is too small.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Records a training step of a network, or any program that uses this backend, as a trace.
    Record(record::Options),
    /// Runs a trace again on a simulated device, and tells what it came to.
    Replay(replay::Options),
    /// Runs a trace under all policies and a range of budgets.
    Compare(compare::Options),
    /// Tells how long a step takes in which budget on which device, and keeps plans for that device.
    Plan(plan::Options),
    /// Says which storages leave device memory, how and why, what each costs, and what more or less memory would change.
    Explain(explain::Options),
    /// Shows a recorded run as it was.
    Report(report::Options),
    /// Lists the devices that can be simulated.
    Devices(devices::Options),
    /// Tells which of NVIDIA's libraries are found, where, and of which version.
    #[cfg(feature = "cuda")]
    Info(info::Options),
    /// Hosts devices for the remote client of Burn 0.22 or 0.23, each client with a budget of its own.
    #[cfg(unix)]
    Serve(serve::Options),
    /// Prints a script by which a shell completes commands and options.
    Completions(shell::CompletionsOptions),
    /// Writes manual pages, one for each command.
    Man(shell::ManOptions),
}

fn main() -> ExitCode {
    // So that `overcommit .. | head` ends as other programs do.
    sigpipe::reset();
    let level = env_logger::Env::new().filter_or(Variable::Log.name(), "warn,burn_overcommit=info");
    env_logger::Builder::from_env(level).format_timestamp(None).init();
    let result = match Options::parse().command {
        Command::Record(options) => record::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Devices(options) => devices::run(&options),
        #[cfg(feature = "cuda")]
        Command::Info(options) => info::run(&options),
        #[cfg(unix)]
        Command::Serve(options) => serve::run(&options),
        Command::Completions(options) => shell::print_completions(&options, Options::command()),
        Command::Man(options) => shell::write_pages(&options, Options::command()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("overcommit: {}", options::in_flags(&format!("{error:#}")));
        ExitCode::FAILURE
    })
}
