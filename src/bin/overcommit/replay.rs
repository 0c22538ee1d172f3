//! `replay`: one run of a trace.

use std::process::ExitCode;

use anyhow::Result;
use burn_overcommit::replay::Outcome;
use burn_overcommit::{Amount, Policy};
use bytesize::ByteSize;
use clap::Args;
use comfy_table::{CellAlignment, presets};

use crate::INFEASIBLE;
use crate::json;
use crate::options::{EvictionOptions, Source, UNLIMITED_BYTES, amount, in_flags, spinner, table, title};
use crate::outputs::Outputs;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    source: Source,
    /// Device memory that it may use: bytes such as 8 GiB, or a share of the trace's live peak such as 50%. Without, all it
    /// asks for.
    #[arg(long, value_parser = amount)]
    budget: Option<Amount>,
    /// The memory policy: auto, or one of those published, such as dtr, vdnn-all, superneurons or capuchin.
    #[arg(long, default_value_t)]
    policy: Policy,
    #[command(flatten)]
    eviction: EvictionOptions,
    #[command(flatten)]
    outputs: Outputs,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let spinner = spinner(format!("replaying {}", options.source.file.display()));
    let program = options.source.program()?;
    let replay = options.source.replay(&program)?;
    let budget_bytes = options.budget.map_or(UNLIMITED_BYTES, |budget| budget.of(replay.live_peak_bytes()));
    let settings = options.eviction.settings(budget_bytes, options.policy);
    let mut outcome = if options.outputs.is_empty() {
        replay.run(&settings)?
    } else {
        let (outcome, recording) = replay.record(&settings)?;
        options.outputs.write(&recording, Some(&outcome), &title(&options.source.file))?;
        outcome
    };
    spinner.finish_and_clear();
    outcome.failure = outcome.failure.as_deref().map(in_flags);
    if options.json {
        json::print(&outcome)?;
    } else {
        show(&outcome);
    }
    Ok(if outcome.feasible { ExitCode::SUCCESS } else { ExitCode::from(INFEASIBLE) })
}

fn show(outcome: &Outcome) {
    let mut table = table(presets::NOTHING);
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let time = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    let ratio = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.4} x"));
    let policy = if outcome.oracle {
        format!("{}, which knows the trace", outcome.policy)
    } else {
        outcome.policy.into()
    };
    let budget = match outcome.budget_bytes {
        UNLIMITED_BYTES => "all it asks for".to_string(),
        bytes => format!(
            "{} ({:.1} % of the live peak)",
            size(bytes as u64),
            share(bytes, outcome.live_peak_bytes)
        ),
    };
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_string(), value]);
    };
    row("device", outcome.device.clone());
    row("policy", policy);
    row("budget", budget);
    row("live peak", size(outcome.live_peak_bytes as u64));
    row("peak", size(outcome.peak_bytes as u64));
    row("footprint", size(outcome.footprint_bytes as u64));
    row("host memory", size(outcome.peak_host_bytes as u64));
    row("time with all memory", time(outcome.base_ns));
    row("time", outcome.step_ns.map_or("none".to_string(), time));
    row("overhead", ratio(outcome.overhead));
    row("no schedule below", ratio(outcome.bound));
    row("recomputed ops", outcome.recomputed_ops.to_string());
    row("offloaded", size(outcome.offloaded_bytes));
    row("fetched", size(outcome.fetched_bytes));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    if let Some(failure) = &outcome.failure {
        println!("\nIt does not fit: {failure}");
    }
}

fn share(bytes: usize, live_peak_bytes: usize) -> f64 {
    100.0 * bytes as f64 / live_peak_bytes.max(1) as f64
}
