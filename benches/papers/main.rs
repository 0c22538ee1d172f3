//! The headline figures of the papers on training beyond device memory, each beside ours.
//!
//! `cargo bench --bench papers -- [--deep] [--claim TEXT] [SEED]`. The paper's figure is quoted, with where it was read; one that was not
//! found in a text is `unverified`. Ours is computed in the same run, on the simulation of the paper's device.

mod measure;
#[path = "../support/results.rs"]
mod results;
mod seeds;
mod table;

use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::results::Output;
use crate::seeds::{Row, SEEDS, Seed};
use crate::table::{Tally, figures, print_head, print_row};

/// The headline figures of the papers beside ours, on the simulation.
#[derive(Parser)]
struct Options {
    /// Only papers whose name contains this.
    #[arg(default_value = "")]
    seed: String,
    /// Only rows whose claim contains this.
    #[arg(long, default_value = "")]
    claim: String,
    /// Networks of a thousand layers and more too: an hour.
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn run(
    seed: &Seed,
    options: &Options,
    progress: &ProgressBar,
    (tally, cells): (&mut Tally, &mut Vec<Value>),
) {
    let wanted = |row: &Row| (options.deep || !row.deep) && row.claim.claim.contains(&options.claim);
    let rows: Vec<Row> = (seed.rows)().into_iter().filter(wanted).collect();
    if rows.is_empty() {
        return;
    }
    progress.suspend(|| print_head(seed));
    for row in rows {
        progress.set_message(format!("{}: {}, {}", seed.name, row.claim.claim, row.workload));
        let answer = (row.measure)();
        tally.count(answer.verdict);
        progress.suspend(|| print_row(&row, &answer));
        cells.push(figures(seed, &row, &answer));
    }
}

fn main() {
    let options = Options::parse();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("a valid template");
    let progress = ProgressBar::new_spinner().with_style(style);
    progress.enable_steady_tick(Duration::from_millis(100));
    let (mut tally, mut cells) = (Tally::default(), Vec::new());
    for seed in SEEDS.iter().filter(|seed| seed.name.contains(&options.seed)) {
        run(seed, &options, &progress, (&mut tally, &mut cells));
    }
    progress.finish_and_clear();
    println!("\n{tally}");
    options.output.write(cells);
}
