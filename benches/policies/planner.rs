//! How long planning takes, and how large the planner is.

use std::path::Path;
use std::time::{Duration, Instant};

use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
use burn_overcommit::trace::Program;
use burn_overcommit::{Planning, Policy};
use indicatif::ProgressBar;
use serde_json::json;

use crate::known::LOGS;
use crate::networks::{self, NETWORKS};
use crate::profile;
use crate::score::Score;

/// Budgets that are planned for, in hundredths of the live peak.
const PERCENTS: [u32; 2] = [50, 30];

/// The longest times.
#[derive(Default)]
struct Longest {
    first: Duration,
    last: Duration,
}

/// Plans every program, and prints a table. The times are this machine's.
pub fn run(logs: Option<&Path>, only: &str, score: &mut Score, progress: &ProgressBar) {
    println!("\n| program | budget | ops | plans | first | last |\n|---|---:|---:|---:|---:|---:|");
    let mut longest = Longest::default();
    for log in LOGS.iter().filter(|log| log.name.contains(only)) {
        let Some(folder) = logs else { continue };
        let path = folder.join(format!("{}.log", log.name));
        let program = Program::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let replay = Replay::new(&program, profile(), ITERATIONS).expect("the program is checked");
        for percent in PERCENTS {
            progress.set_message(format!("{}, {percent} %", log.name));
            let budget_bytes = (replay.live_peak_bytes() as f64 * f64::from(percent) / 100.0) as usize;
            let times = replay.plan_times(&Settings::new(budget_bytes)).expect("the program is checked");
            let Some(times) = times else { continue };
            let first = times.found.first().copied().unwrap_or(times.end);
            let (ops, plans) = (times.ops, times.found.len());
            let [first_ms, last_s] = [first.as_secs_f64() * 1e3, times.end.as_secs_f64()];
            progress.suspend(|| {
                println!(
                    "| {} | {percent} % | {ops} | {plans} | {first_ms:.0} ms | {last_s:.1} s |",
                    log.name
                );
            });
            score.cells.push(json!({
                "table": "Planning",
                "program": log.name,
                "budget_percent": percent,
                "ops": ops,
                "plans": plans,
                "first_ms": first_ms,
                "last_s": last_s,
            }));
            longest.first = longest.first.max(first);
            longest.last = longest.last.max(times.end);
        }
    }
    for (name, batch) in NETWORKS.into_iter().filter(|(name, _)| name.contains(only)) {
        let train =
            |planning, budget_bytes| networks::train(name, batch, Policy::Auto, planning, budget_bytes);
        let (_, need_bytes) = train(Planning::Off, networks::BOUNDLESS_BYTES).expect("all memory suffices");
        for percent in PERCENTS {
            progress.set_message(format!("{name}, {percent} %"));
            let budget_bytes = (need_bytes as f64 * f64::from(percent) / 100.0) as usize;
            let took = |planning| {
                let begun = Instant::now();
                train(planning, budget_bytes);
                begun.elapsed()
            };
            let last = took(Planning::Background).saturating_sub(took(Planning::Off));
            let last_s = last.as_secs_f64();
            progress
                .suspend(|| println!("| {name}, batch {batch} | {percent} % | - | - | - | {last_s:.1} s |"));
            score.cells.push(json!({
                "table": "Planning",
                "program": format!("{name}, batch {batch}"),
                "budget_percent": percent,
                "last_s": last_s,
            }));
            longest.last = longest.last.max(last);
        }
    }
    let Longest { first, last } = longest;
    progress.suspend(|| {
        println!("\nplanner: first={:.0} ms last={:.1} s", first.as_secs_f64() * 1e3, last.as_secs_f64());
    });
}

/// The number of constants that the planner has: the fields of `Tunables`, and numbers that are named in its files.
pub fn constants() -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let lines = |path: &Path| std::fs::read_to_string(path).expect("a file of the crate");
    let tunables = lines(&folder.join("config/tunables.rs"));
    let fields = tunables.lines().filter(|line| line.starts_with("    pub ")).count();
    let files = std::fs::read_dir(folder.join("planner")).expect("the planner's folder").flatten();
    let files = files.map(|file| file.path()).filter(|path| !path.ends_with("tests.rs"));
    let is_number = |line: &&str| {
        let line = line.trim_start_matches("pub ");
        let is_of =
            |kind: &str| line.contains(&format!(": {kind} =")) || line.contains(&format!(": [{kind};"));
        line.starts_with("const ") && ["f64", "u32", "u64", "usize", "i64"].into_iter().any(is_of)
    };
    fields + files.map(|path| lines(&path).lines().filter(is_number).count()).sum::<usize>()
}
