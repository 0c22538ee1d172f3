//! How much memory addresses waste, and how long choosing them takes.
//!
//! `cargo bench --bench placement -- FOLDER`, a folder of logs. For each, on the simulation and without page mapping: the footprint
//! over the most bytes in use where nothing is evicted, by the first placements and improved, and then with recomputation
//! alone under 90, 70, 50 and 30 % of the live peak, where the time by plans with addresses is beside that by best fit.

#[path = "support/results.rs"]
mod results;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use burn_overcommit::replay::{ITERATIONS, Outcome, Replay, Settings};
use burn_overcommit::trace::Program;
use burn_overcommit::{Placement, SimProfile};
use clap::Parser;
use serde_json::{Value, json};

use crate::results::Output;

/// The footprints of logs, and the time to find addresses.
#[derive(Parser)]
struct Options {
    /// A folder of logs.
    folder: PathBuf,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Steps of improvement where nothing is evicted: a second or two.
const STEPS: u64 = 1_000_000_000;

#[derive(Default)]
struct Summary {
    logs: usize,
    worst_kept: f64,
    worst_recomputed: f64,
    faster: usize,
    slower: usize,
    cells: usize,
    /// For `--json`.
    figures: Vec<Value>,
}

fn ratio(outcome: &Outcome) -> f64 {
    outcome.footprint_bytes as f64 / outcome.peak_bytes.max(1) as f64
}

fn kept(log: &str, replay: &Replay, summary: &mut Summary) {
    for (what, steps) in [("first", 0), ("improved", STEPS)] {
        let start = Instant::now();
        let found = replay.footprint(steps);
        let spent = start.elapsed();
        let ratio = found.footprint_bytes as f64 / found.peak_bytes.max(1) as f64;
        println!("  no eviction, {what:<8} {:>6} blocks  footprint {ratio:.6}  {spent:.1?}", found.blocks);
        summary.figures.push(json!({
            "table": "Without eviction",
            "log": log,
            "placement": what,
            "blocks": found.blocks,
            "footprint_ratio": ratio,
            "search_s": spent.as_secs_f64(),
        }));
        if steps > 0 {
            summary.worst_kept = summary.worst_kept.max(ratio);
        }
    }
}

fn recomputed(log: &str, replay: &Replay, summary: &mut Summary) -> Result<()> {
    for percent in [90, 70, 50, 30] {
        let settings = Settings {
            offload: false,
            page_mapping: Some(false),
            ..Settings::new(replay.live_peak_bytes() / 100 * percent)
        };
        let run = |placement| replay.run(&Settings { placement: Some(placement), ..settings.clone() });
        let start = Instant::now();
        let ours = run(Placement::SmartPool)?;
        let spent = start.elapsed();
        let fitted = run(Placement::BestFit)?;
        let overhead = |outcome: &Outcome| outcome.overhead.map_or("none".into(), |x| format!("{x:.4}"));
        println!(
            "  {percent} %: overhead {} (best fit {}), footprint {:.4} ({:.4}), {spent:.1?}",
            overhead(&ours),
            overhead(&fitted),
            ratio(&ours),
            ratio(&fitted),
        );
        summary.figures.push(json!({
            "table": "Recomputation alone",
            "log": log,
            "budget_percent": percent,
            "overhead_ratio": ours.overhead,
            "best_fit_overhead_ratio": fitted.overhead,
            "footprint_ratio": ours.feasible.then(|| ratio(&ours)),
            "best_fit_footprint_ratio": fitted.feasible.then(|| ratio(&fitted)),
            "replay_s": spent.as_secs_f64(),
        }));
        summary.cells += 1;
        let nothing = u64::MAX;
        let (ours_ns, fitted_ns) = (ours.step_ns.unwrap_or(nothing), fitted.step_ns.unwrap_or(nothing));
        summary.faster += usize::from(ours_ns < fitted_ns);
        summary.slower += usize::from(ours_ns > fitted_ns);
        if ours.feasible {
            summary.worst_recomputed = summary.worst_recomputed.max(ratio(&ours));
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let options = Options::parse();
    let entries = std::fs::read_dir(&options.folder).context(options.folder.display().to_string())?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    let profile = SimProfile::named("rtx4090").and_then(SimProfile::get).context("a vendor's device")?;
    let mut summary = Summary::default();
    for path in &paths {
        let log = path.file_stem().unwrap_or_default().to_string_lossy();
        println!("{log}");
        let program = Program::open(path)?;
        let replay = Replay::new(&program, profile.clone(), ITERATIONS)?;
        kept(&log, &replay, &mut summary);
        recomputed(&log, &replay, &mut summary)?;
        summary.logs += 1;
    }
    println!(
        "placement: logs={} worst_footprint={:.6} worst_footprint_recomputing={:.4} cells={} faster={} slower={}",
        summary.logs,
        summary.worst_kept,
        summary.worst_recomputed,
        summary.cells,
        summary.faster,
        summary.slower
    );
    options.output.write(summary.figures);
    Ok(())
}
