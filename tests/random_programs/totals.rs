//! Totals of the simulator, printed and kept.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

/// Counts of worlds, programs and bytes, by name.
#[derive(Debug, Default)]
pub struct Totals(BTreeMap<String, u64>);

impl Totals {
    pub fn add(&mut self, name: impl Into<String>, count: u64) {
        *self.0.entry(name.into()).or_default() += count;
    }

    fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub fn merge(&mut self, other: Totals) {
        other.0.into_iter().for_each(|(name, count)| self.add(name, count));
    }
}

/// Prints the totals of a run, and returns them as cells of a table.
pub fn report(totals: &Totals, first: u64, elapsed: Duration) -> Vec<Value> {
    let (worlds, runs) = (totals.of("worlds").max(1), totals.of("program runs").max(1));
    let seconds = elapsed.as_secs_f64();
    let speed = worlds as f64 / seconds;
    println!(
        "{worlds} worlds and {runs} program runs from seed {first} on in {seconds:.1} s, {speed:.1} worlds a second"
    );
    let cell = |(name, &count): (&String, &u64)| {
        let per_world = (1e4 * count as f64 / worlds as f64).round() / 1e4;
        println!("{name}: {count}, {per_world} a world");
        json!({ "what": name, "count": count, "per_world": per_world })
    };
    totals.0.iter().map(cell).collect()
}

/// Writes a run to a file, of which `scripts/bench-results accept simulator FILE` makes a page.
pub fn keep(path: &str, cells: Vec<Value>, first: u64) {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().expect("a program that says it");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    let (commit, date) = (said("git", &["rev-parse", "--short", "HEAD"]), said("date", &["-u", "+%F"]));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let machine = format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH);
    let run =
        json!({ "commit": commit, "date": date, "machine": machine, "first_seed": first, "cells": cells });
    fs::write(path, run.to_string()).expect("RANDOM_JSON names a file that can be written");
}
