//! The first iterations, in which there is no plan yet: `auto` by its rule alone beside the published policies that need no plan.

use std::path::Path;

use burn_overcommit::replay::{Replay, Settings};
use burn_overcommit::trace::Program;
use burn_overcommit::{Planning, Policy};
use indicatif::ProgressBar;
use serde_json::json;

use crate::known::{LOGS, PERCENTS};
use crate::networks::{self, NETWORKS};
use crate::profile;
use crate::score::Score;

/// The policies that are compared: they decide when memory is short, and need no plan.
const POLICIES: [Policy; 5] =
    [Policy::Auto, Policy::Dtr, Policy::DtrEq, Policy::TensorCache, Policy::Recompute];
/// So many iterations are counted.
const ITERATIONS: usize = 3;

/// The time of the first iterations as a multiple of that with all memory, by policy in the order of [`POLICIES`].
type Overheads = [Option<f64>; POLICIES.len()];

/// Runs the first iterations of all programs, and prints a table.
pub fn run(logs: Option<&Path>, only: &str, score: &mut Score, progress: &ProgressBar) {
    println!("\n| program | budget | {} |", POLICIES.map(Policy::name).join(" | "));
    println!("|---|---:|{}", "---:|".repeat(POLICIES.len()));
    let mut cells = Vec::new();
    let mut add = |name: &str, percent: u32, overheads: Overheads| {
        let text = overheads.map(|it| it.map_or("-".to_string(), |overhead| format!("{overhead:.3}")));
        progress.suspend(|| println!("| {name} | {percent} % | {} |", text.join(" | ")));
        for (policy, overhead) in POLICIES.iter().zip(overheads) {
            score.cells.push(json!({
                "table": "The first iterations",
                "program": name,
                "budget_percent": percent,
                "policy": policy.name(),
                "overhead": overhead,
            }));
        }
        cells.push(overheads);
    };
    for log in LOGS.iter().filter(|log| log.name.contains(only)) {
        let Some(folder) = logs else { continue };
        let path = folder.join(format!("{}.log", log.name));
        let program = Program::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for percent in PERCENTS {
            progress.set_message(format!("{}, {percent} %", log.name));
            add(log.name, percent, POLICIES.map(|policy| replayed(&program, percent, policy)));
        }
    }
    for (name, batch) in NETWORKS.into_iter().filter(|(name, _)| name.contains(only)) {
        let train = |policy, budget_bytes| networks::train(name, batch, policy, Planning::Off, budget_bytes);
        let (base_ns, need_bytes) =
            train(Policy::Auto, networks::BOUNDLESS_BYTES).expect("all memory suffices");
        let first_ns = |steps_ns: &[u64]| steps_ns[..ITERATIONS].iter().sum::<u64>() as f64;
        for percent in PERCENTS {
            progress.set_message(format!("{name}, {percent} %"));
            let budget_bytes = (need_bytes as f64 * f64::from(percent) / 100.0) as usize;
            let overhead = |policy| Some(first_ns(&train(policy, budget_bytes)?.0) / first_ns(&base_ns));
            add(&format!("{name}, batch {batch}"), percent, POLICIES.map(overhead));
        }
    }
    progress.suspend(|| summarize(&cells));
}

/// The first iterations of a log. They are run one more each time, since a replay tells the time of the last.
fn replayed(program: &Program, percent: u32, policy: Policy) -> Option<f64> {
    let (mut base_ns, mut ns) = (0, 0);
    for iterations in 1..=ITERATIONS {
        let replay = Replay::new(program, profile(), iterations).expect("the program is checked");
        let budget_bytes = (replay.live_peak_bytes() as f64 * f64::from(percent) / 100.0) as usize;
        let settings = Settings { policy, planning: Some(Planning::Off), ..Settings::new(budget_bytes) };
        let outcome = replay.run(&settings).expect("the program is checked");
        base_ns += outcome.base_ns;
        ns += outcome.step_ns?;
    }
    Some(ns as f64 / base_ns as f64)
}

/// Prints the means over the cells that every policy can run in, and how far `auto` is above the best of the others at the most.
fn summarize(cells: &[Overheads]) {
    let whole: Vec<[f64; POLICIES.len()]> = cells
        .iter()
        .filter(|overheads| overheads.iter().all(Option::is_some))
        .map(|overheads| overheads.map(Option::unwrap_or_default))
        .collect();
    let mean = |at: usize| whole.iter().map(|overheads| overheads[at]).sum::<f64>() / whole.len() as f64;
    let means = (0..POLICIES.len()).map(|at| format!("{}={:.4}", POLICIES[at].name(), mean(at)));
    let above = cells.iter().filter_map(|overheads| {
        let best = overheads[1..].iter().flatten().copied().reduce(f64::min)?;
        Some(overheads[0]? / best)
    });
    let most = above.fold(0.0, f64::max);
    let lost = cells.iter().filter(|it| it[0].is_none() && it[1..].iter().any(Option::is_some)).count();
    println!(
        "\nunplanned: cells={} worst-ratio={most:.4} infeasible={lost} {}",
        cells.len(),
        means.collect::<Vec<_>>().join(" ")
    );
}
