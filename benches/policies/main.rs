//! Every policy on recorded programs and on networks, at one budget after the other, beside what no schedule beats and what
//! is known to have been reached.
//!
//! `cargo bench --bench policies -- [--logs FOLDER] [--only NAME] [--grid | --unplanned | --planner]`. With the public logs of the DTR simulator in a folder,
//! they are replayed in a loop; the networks are trained on the simulation, and compared with the best of the other
//! policies. Simulated time, so the figures are the same on every machine.

mod known;
mod networks;
mod planner;
#[path = "../support/results.rs"]
mod results;
mod score;
mod unplanned;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
use burn_overcommit::trace::Program;
use burn_overcommit::{Policy, Profile, SimProfile};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::known::{Known, LOGS, Log, PERCENTS};
use crate::results::Output;
use crate::score::Score;

/// Hundredths of the live peak.
const GRID: RangeInclusive<u32> = 20..=100;
/// Bytes per second that a lane copies.
const LINK: f64 = 12.5e9;

/// Policies on recorded programs and networks, on the simulation.
#[derive(Parser)]
struct Options {
    /// Where the public logs are: resnet32.log, unet.log, transformer.log, treelstm.log.
    #[arg(long)]
    logs: Option<PathBuf>,
    /// Only `auto`, at every hundredth of the live peak from a fifth on, and where a larger budget is slower.
    #[arg(long)]
    grid: bool,
    /// Only the first iterations, without a plan.
    #[arg(long, conflicts_with = "grid")]
    unplanned: bool,
    /// Only how long planning takes.
    #[arg(long, conflicts_with_all = ["grid", "unplanned"])]
    planner: bool,
    /// Only what has this in its name.
    #[arg(long, default_value = "")]
    only: String,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Prints the row of a table.
fn row(name: &str, cells: impl IntoIterator<Item = Option<f64>>) {
    let cell = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    let cells: Vec<String> = cells.into_iter().map(cell).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

/// Prints the head of a table.
fn head(title: &str) {
    let columns = PERCENTS.map(|percent| format!("{percent} %"));
    println!(
        "\n### {title}\n\n| policy | {} |\n|---|{}",
        columns.join(" | "),
        "---:|".repeat(PERCENTS.len())
    );
}

/// Eviction methods, for `--json`.
const RECOMPUTE: &str = "recompute";
const OFFLOAD: &str = "offload";
const BOTH: &str = "offload and recompute";

/// One way to evict, or both: a table with a row for every policy.
fn table(
    replay: &Replay<'_>,
    [log, title, method]: [&str; 3],
    (offload, recompute): (bool, bool),
    known: &[Option<Known>; 5],
    (score, progress): (&mut Score, &ProgressBar),
) {
    progress.suspend(|| head(title));
    let settings = |percent: u32, policy| Settings {
        policy,
        offload,
        recompute,
        ..Settings::new((replay.live_peak_bytes() as f64 * f64::from(percent) / 100.0) as usize)
    };
    for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
        let overheads = PERCENTS.map(|percent| {
            progress.set_message(format!("{title}, {policy}, {percent} %"));
            replay.run(&settings(percent, policy)).expect("the program is checked").overhead
        });
        if policy == Policy::Auto {
            overheads.iter().zip(known).for_each(|(&ours, &known)| score.count(ours, known));
            for (percent, ours) in PERCENTS.into_iter().zip(overheads) {
                score.bound(ours, replay.bound(&settings(percent, policy)));
            }
        }
        progress.suspend(|| row(policy.name(), overheads));
        score.row(["Logs", log, method, policy.name()], overheads);
    }
    let reached = known.map(|known| match known {
        Some(Known::Overhead(overhead)) => Some(overhead),
        _ => None,
    });
    let bounds = PERCENTS.map(|percent| replay.bound(&settings(percent, Policy::Auto)));
    for (name, overheads) in [("best known", reached), ("no schedule below", bounds)] {
        progress.suspend(|| row(name, overheads));
        score.row(["Logs", log, method, name], overheads);
    }
}

/// What each policy takes in 1.02 times the memory beyond which copies could hide all.
fn offload_only(replay: &Replay<'_>, log: &str, score: &mut Score, progress: &ProgressBar) {
    let bound = replay.offload_bound_bytes() as f64 / replay.live_peak_bytes() as f64;
    let part = 1.02 * bound;
    let settings = |policy| Settings {
        budget_bytes: (replay.live_peak_bytes() as f64 * part) as usize,
        policy,
        recompute: false,
        ..Settings::new(0)
    };
    for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
        progress.set_message(format!("offload only, {policy}"));
        let outcome = replay.run(&settings(policy)).expect("the program is checked");
        if policy == Policy::Auto {
            score.count(outcome.overhead, Some(Known::Overhead(1.0)));
        }
        score.cells.push(json!({
            "table": "Logs, offload alone",
            "program": log,
            "method": OFFLOAD,
            "policy": policy.name(),
            "bound_percent": 100.0 * bound,
            "memory_percent": 100.0 * part,
            "overhead": outcome.overhead,
        }));
        progress.suspend(|| match outcome.overhead {
            Some(overhead) => {
                println!("- {policy}: {overhead:.4} in {part:.3} of the live peak (bound {bound:.3})")
            }
            None => {
                println!("- {policy}: infeasible in {part:.3} of the live peak (bound {bound:.3})")
            }
        });
    }
}

/// How much longer a step takes with more memory, at the most; and the budgets at which it takes longer at all.
fn grid(
    replay: &Replay<'_>,
    [log, title, method]: [&str; 3],
    (offload, recompute): (bool, bool),
    (score, progress): (&mut Score, &ProgressBar),
) {
    let mut least = (f64::INFINITY, 0);
    let (mut slower, mut most) = (Vec::new(), 1.0f64);
    for percent in GRID {
        progress.set_message(format!("{title}, {percent} %"));
        let budget_bytes = (replay.live_peak_bytes() as f64 * f64::from(percent) / 100.0) as usize;
        let settings = Settings { offload, recompute, ..Settings::new(budget_bytes) };
        let outcome = replay.run(&settings).expect("the program is checked");
        score.cells.push(json!({
            "table": "Logs, one budget after the other",
            "program": log,
            "method": method,
            "policy": Policy::Auto.name(),
            "budget_percent": percent,
            "overhead": outcome.overhead,
        }));
        let overhead = outcome.overhead.unwrap_or(f64::INFINITY);
        if overhead < least.0 {
            least = (overhead, percent);
        } else if overhead > least.0 {
            most = most.max(overhead / least.0);
            slower.push(format!("{percent} % {overhead:.4} ({} % {:.4})", least.1, least.0));
        }
    }
    progress.suspend(|| {
        println!(
            "- {title}: of {} budgets, {} are slower than a smaller one, by a factor of {most:.4} at the most: {}",
            GRID.count(),
            slower.len(),
            slower.join(", ")
        )
    });
}

/// What policies are compared on.
fn profile() -> Profile {
    let mut profile = SimProfile::named("rtx4090").and_then(SimProfile::get).expect("a profile of the table");
    profile.props = profile.props.with_link(LINK);
    profile
}

fn replay_log(folder: &Path, log: &Log, options: &Options, score: &mut Score, progress: &ProgressBar) {
    let path = folder.join(format!("{}.log", log.name));
    let program = Program::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let replay = Replay::new(&program, profile(), ITERATIONS).expect("the program is checked");
    progress.suspend(|| println!("\n## {}", log.name));
    if options.grid {
        progress.suspend(|| println!());
        grid(&replay, [log.name, "Recompute only", RECOMPUTE], (false, true), (score, progress));
        grid(&replay, [log.name, "Offload and recompute", BOTH], (true, true), (score, progress));
        grid(&replay, [log.name, "Offload only", OFFLOAD], (true, false), (score, progress));
        return;
    }
    let names = [log.name, "Recompute only", RECOMPUTE];
    table(&replay, names, (false, true), &log.recompute, (score, progress));
    let names = [log.name, "Offload and recompute, 12.5 GB/s each way", BOTH];
    table(&replay, names, (true, true), &log.both, (score, progress));
    progress.suspend(|| println!("\n### Offload only, 12.5 GB/s each way\n"));
    offload_only(&replay, log.name, score, progress);
}

fn main() {
    let options = Options::parse();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("a valid template");
    let progress = ProgressBar::new_spinner().with_style(style);
    progress.enable_steady_tick(Duration::from_millis(100));
    let mut score = Score::default();
    if options.unplanned {
        unplanned::run(options.logs.as_deref(), &options.only, &mut score, &progress);
        progress.finish_and_clear();
        options.output.write(score.cells);
        return;
    }
    if options.planner {
        planner::run(options.logs.as_deref(), &options.only, &mut score, &progress);
        progress.finish_and_clear();
        options.output.write(score.cells);
        return;
    }
    for log in LOGS.iter().filter(|log| log.name.contains(&options.only)) {
        match &options.logs {
            Some(folder) => replay_log(folder, log, &options, &mut score, &progress),
            None => progress.suspend(|| println!("{}: no --logs, so not replayed", log.name)),
        }
    }
    if !options.grid {
        networks::run(&options.only, &mut score, &progress);
        progress.suspend(|| println!("\n{score}"));
    }
    progress.finish_and_clear();
    options.output.write(score.cells);
}
