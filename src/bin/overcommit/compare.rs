//! `compare`: a trace under all policies and a range of budgets.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use burn_overcommit::replay::{Outcome, Replay};
use burn_overcommit::report::write_comparison;
use burn_overcommit::{Amount, Policy};
use bytesize::ByteSize;
use clap::Args;
use comfy_table::{CellAlignment, presets};

use crate::json;
use crate::options::{EvictionOptions, Source, amount, bar, file_ending_in, spinner, table};
use crate::outputs::to_file;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    source: Source,
    /// Budgets, separated by commas: bytes such as 8 GiB, or shares of the trace's live peak.
    #[arg(long, value_delimiter = ',', value_parser = amount, default_value = "100%,90%,80%,70%,60%,50%,40%,30%,20%")]
    budgets: Vec<Amount>,
    /// Policies, separated by commas [default: all].
    #[arg(long, value_delimiter = ',')]
    policies: Vec<Policy>,
    #[command(flatten)]
    eviction: EvictionOptions,
    /// A plot of overhead over budget, as SVG.
    #[arg(long, value_name = "FILE", value_parser = file_ending_in(&["svg"]))]
    plot: Option<PathBuf>,
    /// One JSON object, with an outcome for every policy and budget.
    #[arg(long)]
    json: bool,
}

/// The heights of a line of text.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub fn run(options: &Options) -> Result<ExitCode> {
    let spinner = spinner(format!("reading {}", options.source.file.display()));
    let program = options.source.program()?;
    let replay = options.source.replay(&program)?;
    spinner.finish_and_clear();
    let policies = if options.policies.is_empty() { Policy::ALL.to_vec() } else { options.policies.clone() };
    let rows = run_all(options, &replay, &policies)?;
    if let Some(path) = &options.plot {
        to_file(path, |file| write_comparison(&rows.concat(), file))?;
    }
    if options.json {
        json::print_list("outcomes", &rows.concat())?;
    } else {
        show(&replay, &rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// A row for every policy, a column for every budget.
fn run_all(options: &Options, replay: &Replay, policies: &[Policy]) -> Result<Vec<Vec<Outcome>>> {
    let bar = bar(policies.len() * options.budgets.len(), "replaying");
    let mut rows = Vec::new();
    for &policy in policies {
        let mut row = Vec::new();
        for budget in &options.budgets {
            row.push(replay.run(&options.eviction.settings(budget.of(replay.live_peak_bytes()), policy))?);
            bar.inc(1);
        }
        rows.push(row);
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn show(replay: &Replay, rows: &[Vec<Outcome>]) {
    let first = &rows[0];
    println!(
        "Time as a multiple of {:.3} ms, which it takes on {} with all memory; {} live at once{}.",
        first[0].base_ns as f64 / 1e6,
        first[0].device,
        ByteSize(replay.live_peak_bytes() as u64),
        if first[0].oracle { "; the policies know the trace" } else { "" }
    );
    let mut table = table(presets::ASCII_MARKDOWN);
    let budgets = first.iter().map(|outcome| ByteSize(outcome.budget_bytes as u64).to_string());
    table.set_header(["budget".to_string()].into_iter().chain(budgets).chain([String::new()]));
    let most = rows.iter().flatten().filter_map(|outcome| outcome.overhead).fold(1.0, f64::max);
    let cell = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    let mut add = |name: &str, values: Vec<Option<f64>>| {
        let plot: String = values.iter().map(|&value| height(value, most)).collect();
        table.add_row([name.to_string()].into_iter().chain(values.into_iter().map(cell)).chain([plot]));
    };
    for row in rows {
        add(row[0].policy, row.iter().map(|outcome| outcome.overhead).collect());
    }
    add("no schedule below", first.iter().map(|outcome| outcome.bound).collect());
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}");
}

/// A bar between one and `most`, by ratios; a gap where there is no value.
fn height(value: Option<f64>, most: f64) -> char {
    value.map_or(' ', |value| {
        let part = value.ln() / most.ln().max(1e-9);
        HEIGHTS[((part * 7.0).round() as usize).min(7)]
    })
}
