//! What training steps take on GPUs that nobody here has, by a model: each launch of this crate's kernels by its bytes, its instructions
//! and its blocks (`engine::KernelRates`), those of NVIDIA's libraries by the roofline, and the program's thread by what a launch
//! takes it.
//!
//! Beside that: the bytes of the same launches alone, and the fewest bytes that they could do with. Nothing of it was measured.
//! `cargo bench --bench gpu_model`; the last line sums up.

mod calls;
mod price;
#[path = "../support/results.rs"]
mod results;
mod steps;

use std::path::PathBuf;

use burn_overcommit::{Profile, SimProfile};
use clap::Parser;
use serde_json::{Value, json};

use crate::price::{Priced, price};
use crate::results::Output;
use crate::steps::{Cell, Floats};

/// Each step, and what the last line calls its network.
const CELLS: [(&str, &str); 5] = [
    ("resnet-50:64:f32", "resnet50"),
    ("resnet-50:64:bf16", "resnet50"),
    ("gpt2-medium:4:f32", "gpt2m"),
    ("gpt2-medium:4:bf16", "gpt2m"),
    ("unet:4:f32", "unet"),
];

#[derive(Parser)]
struct Options {
    /// Devices whose kernels are priced.
    #[arg(long, value_delimiter = ',', default_value = "h100,rtx4090")]
    devices: Vec<String>,
    /// Only networks whose name contains this.
    #[arg(long, default_value = "")]
    network: String,
    /// The kernels that take the longest, of each step: how many are listed.
    #[arg(long, default_value_t = 0)]
    kernels: usize,
    /// Writes the kernel calls of the steps on the first device to a file, each once: for `scripts/check-sectors`.
    #[arg(long)]
    calls: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn profile(key: &str) -> Profile {
    let profile = SimProfile::named(key).and_then(SimProfile::get);
    let profile = profile.unwrap_or_else(|| panic!("{key} is none of the simulated devices"));
    assert!(profile.props.kernels.is_some(), "{key} has no prices of this crate's kernels");
    profile
}

/// The figures of a step on a device.
fn figures(cell: &Cell, [device, fusion]: [&str; 2], priced: &Priced) -> Value {
    json!({
        "network": cell.network,
        "batch": cell.batch,
        "dtype": cell.dtype.to_string(),
        "device": device,
        "fusion": fusion,
        "launches": priced.launches,
        "short_launches": priced.short,
        "own_kernels_ms": priced.own_ns / 1e6,
        "own_bytes_ms": priced.bytes_ns / 1e6,
        "fewest_bytes_ms": priced.fewest_ns / 1e6,
        "libraries_ms": priced.library_ns / 1e6,
        "step_ms": priced.step_ns / 1e6,
    })
}

fn print(cell: &Cell, [device, fusion]: [&str; 2], priced: &Priced, kernels: usize) {
    let ms = |ns: f64| ns / 1e6;
    println!(
        "| {} | {} | {} | {device} | {fusion} | {} ({}) | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
        cell.network,
        cell.batch,
        cell.dtype,
        priced.launches,
        priced.short,
        ms(priced.own_ns),
        ms(priced.bytes_ns),
        ms(priced.fewest_ns),
        ms(priced.library_ns),
        ms(priced.step_ns)
    );
    let mut families: Vec<_> = priced.families.iter().collect();
    families.sort_by(|(_, (_, a)), (_, (_, b))| b.total_cmp(a));
    for (family, (count, ns)) in families.into_iter().take(kernels) {
        println!("|   {family} | x{count} | | | | | {:.2} | | | | |", ms(*ns));
    }
}

fn main() {
    let options = Options::parse();
    println!(
        "| network | batch | type | device | fusion | launches (own, < 2 us) | own kernels ms | their bytes alone | fewest bytes | libraries | step |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let (mut told, mut launches) = (Vec::new(), Vec::new());
    let (mut calls, mut cells) = (String::new(), Vec::new());
    let profiles: Vec<Profile> = options.devices.iter().map(|key| profile(key)).collect();
    for (cell, short) in CELLS {
        let cell: Cell = cell.parse().unwrap_or_else(|error| panic!("{error}"));
        if !cell.network.contains(&options.network) {
            continue;
        }
        for (place, profile) in profiles.iter().enumerate() {
            for (fusion, words) in [(None, "default"), (Some(true), "all"), (Some(false), "none")] {
                let recorded = cell.launches(profile, fusion);
                let priced = price(&recorded, &profile.props);
                print(&cell, [&profile.key, words], &priced, options.kernels);
                cells.push(figures(&cell, [&profile.key, words], &priced));
                if place == 0 && fusion.is_none() {
                    let label = format!("{short}-{}", cell.dtype);
                    calls += &calls::of(&label, &recorded);
                    told.push(format!("{label}={:.0}", priced.own_ns / 1e6));
                    if cell.dtype == Floats::F32 {
                        launches.push(priced.launches.to_string());
                    }
                }
            }
        }
    }
    if let Some(path) = &options.calls {
        std::fs::write(path, calls).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    options.output.write(cells);
    println!("gpu-model: {} launches={}", told.join(" "), launches.join("/"));
}
