//! The option `--json FILE` of every bench: a run's figures in the form of `benches/results/NAME/baseline.json`, which
//! `scripts/bench-results` compares with the baseline.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use serde_json::{Number, Value, json};
use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// Digits of a figure that are kept.
const DIGITS: usize = 7;

#[derive(Args, Clone, Debug)]
pub struct Output {
    /// Also writes the figures to this file, for `scripts/bench-results`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Output {
    /// Writes the cells of a run, if a file was asked for. A cell is an object: some keys name it, all others are figures with
    /// their units in the keys.
    pub fn write(&self, mut cells: Vec<Value>) {
        let Some(path) = &self.json else { return };
        cells.iter_mut().filter_map(Value::as_object_mut).flat_map(|cell| cell.values_mut()).for_each(round);
        let run = json!({
            "bench": env!("CARGO_CRATE_NAME"),
            "commit": printed("git", &["describe", "--always", "--dirty", "--exclude", "*"]),
            "date": printed("date", &["-u", "+%F"]),
            "machine": machine(),
            "cells": cells,
        });
        if let Err(error) = std::fs::write(path, format!("{run:#}\n")) {
            eprintln!("cannot write {}: {error}", path.display());
            std::process::exit(1);
        }
    }
}

/// Leaves so many digits of a float that the file stays readable.
fn round(value: &mut Value) {
    if value.is_f64() {
        let rounded = value.as_f64().map(|float| format!("{float:.*e}", DIGITS - 1));
        *value =
            rounded.and_then(|text| Number::from_f64(text.parse().ok()?)).map_or(Value::Null, Value::Number);
    }
}

/// What a program prints; nothing where there is no such program.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string()).filter(|text| !text.is_empty())
}

fn machine() -> String {
    let system = System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let brand = system.cpus().first().map_or("unknown", |cpu| cpu.brand().trim());
    format!("{cores} cores, {brand}, {}", std::env::consts::ARCH)
}
