//! Totals of the simulator, printed and kept.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

/// Counts of worlds, programs and bytes, by name.
#[derive(Debug, Clone, Default)]
pub struct Totals(BTreeMap<String, u64>);

impl Totals {
    pub fn add(&mut self, name: impl Into<String>, count: u64) {
        *self.0.entry(name.into()).or_default() += count;
    }

    fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The cells of a table.
    fn cells(&self) -> Vec<Value> {
        let worlds = self.of("worlds").max(1) as f64;
        let cell = |(name, &count): (&String, &u64)| {
            let per_world = (1e4 * count as f64 / worlds).round() / 1e4;
            json!({ "what": name, "count": count, "per_world": per_world })
        };
        self.0.iter().map(cell).collect()
    }

    pub fn merge(&mut self, other: Totals) {
        other.0.into_iter().for_each(|(name, count)| self.add(name, count));
    }
}

/// Prints the totals of a run.
pub fn report(totals: &Totals, first: u64, elapsed: Duration) {
    let (worlds, runs) = (totals.of("worlds"), totals.of("program runs"));
    let seconds = elapsed.as_secs_f64();
    let speed = worlds as f64 / seconds;
    println!(
        "{worlds} worlds and {runs} program runs from seed {first} on in {seconds:.1} s, {speed:.1} worlds a second"
    );
    totals
        .cells()
        .iter()
        .for_each(|cell| println!("{}: {}, {} a world", cell["what"], cell["count"], cell["per_world"]));
}

/// Adds a run to those in a file, of which `scripts/bench-results accept simulator FILE` makes a page.
pub fn keep(path: &str, mut totals: Totals, first: u64) {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().expect("a program that says it");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    let mut seeds = vec![json!([first, totals.of("worlds")])];
    if let Ok(bytes) = fs::read(path) {
        let before: Value =
            serde_json::from_slice(&bytes).expect("RANDOM_JSON names a file of runs, or none");
        let array = |name: &str| before[name].as_array().cloned().unwrap_or_default();
        seeds.extend(array("seeds"));
        for cell in array("cells") {
            let name = cell["what"].as_str().expect("a name");
            cell["count"].as_u64().into_iter().for_each(|count| totals.add(name, count));
        }
    }
    let (commit, date) = (said("git", &["rev-parse", "--short", "HEAD"]), said("date", &["-u", "+%F"]));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let machine = format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH);
    let cells = totals.cells();
    let runs = json!({ "commit": commit, "date": date, "machine": machine, "seeds": seeds, "cells": cells });
    fs::write(path, runs.to_string()).expect("RANDOM_JSON names a file that can be written");
}
