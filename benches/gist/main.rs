//! What Gist's encodings save and cost: Jain et al., *Gist: Efficient Data Encoding for Deep Neural Network Training*,
//! ISCA 2018, section 5, on its networks at its batch, on the simulation of its device.
//!
//! `cargo bench --bench gist [-- NETWORK]`; with `--sparsity`, how sparse values are, which the rest goes by;
//! with `--accuracy IMAGE`, what rounding costs.
//! For each network, beside the same step without encodings:
//! - *stash*: what of activations is in device memory when the forward pass has ended. What the step begins with, weights,
//!   momenta and the batch, is not counted.
//! - *peak*: the most device memory in use at once in the step, less the same.
//! - *dynamic*: what feature maps, gradient maps and workspace take until all gradients are there (`footprint.rs`): where memory is
//!   allocated as it is needed, beside where addresses are fixed beforehand and nothing is encoded, the paper's baseline. That
//!   is how its section 5.5 has it, as far as is known: its text was not at hand.
//! - *time* of the step.
//!
//! Then, of each codec, what the host engine encodes and decodes in a second, and as a part of what it copies.
//!
//! The last line has, of the stash, the average over networks without loss and with delayed precision reduction, each network
//! with the format that the paper trains it with, the best of these, the best of *dynamic*, and the most time that is added in
//! any of these.

mod accuracy;
mod bandwidth;
mod footprint;
#[path = "../../examples/deeper_than_memory/learner.rs"]
mod learner;
mod measure;
#[path = "../../examples/deeper_than_memory/model.rs"]
mod model;
mod residual;
#[path = "../support/results.rs"]
mod results;
mod sparsity;

use std::path::PathBuf;

use burn::backend::Autodiff;
use burn_overcommit::{FloatFormat, Overcommit, Policy};
use burn_overcommit_examples::digits as data;
use clap::Parser;
use serde_json::json;

use crate::measure::{Measured, measure};
use crate::results::Output;

type Training = Autodiff<Overcommit>;

const BATCH: usize = 64;

/// The networks; what the paper rounds to in each (section 5.3): the narrowest format that trains as well; and the side of the
/// images that sparsity is measured with.
const NETWORKS: [(&str, FloatFormat, usize); 5] = [
    ("alexnet", FloatFormat::Fp8E4m3, 67),
    ("nin", FloatFormat::Fp10, 67),
    ("overfeat", FloatFormat::Fp8E4m3, 71),
    ("vgg-16", FloatFormat::F16, 32),
    ("googlenet", FloatFormat::Fp10, 64),
];

/// Memory and time of training steps with encoded activations, on the simulation.
#[derive(Parser)]
struct Options {
    /// Only networks whose name contains this.
    #[arg(default_value = "")]
    network: String,
    /// The simulated device.
    #[arg(long, default_value = "titan-x")]
    device: String,
    /// Measures how sparse values are and prints that, as `benches/gist/sparsity.txt` has it.
    #[arg(long)]
    sparsity: bool,
    /// Trains small networks with each format, prints accuracies and draws the losses into this image.
    #[arg(long)]
    accuracy: Option<PathBuf>,
    /// How often each format is trained with then.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What a policy does to a network, beside none.
#[derive(Clone, Copy)]
struct Row {
    stash: f64,
    peak: f64,
    dynamic: f64,
    time: f64,
}

impl Row {
    fn new(with: Measured, without: Measured) -> Self {
        Row {
            stash: without.stash_bytes as f64 / with.stash_bytes as f64,
            peak: without.peak_bytes as f64 / with.peak_bytes as f64,
            dynamic: without.footprint.fixed_bytes as f64 / with.footprint.dynamic_bytes as f64,
            time: with.step_ns as f64 / without.step_ns as f64,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn main() {
    let options = Options::parse();
    let networks = NETWORKS.into_iter().filter(|(name, ..)| name.contains(&options.network));
    if options.sparsity {
        for (network, _, side) in networks {
            let parts = sparsity::measure(network, side).into_iter().map(|part| format!(" {part:.3}"));
            println!("{network}:{}", parts.collect::<String>());
        }
        return;
    }
    if let Some(image) = &options.accuracy {
        let cells = accuracy::print(image, options.seeds).unwrap_or_else(|error| panic!("{error}"));
        options.output.write(cells);
        return;
    }
    println!("| network | policy | stash | | peak | | dynamic | | time | |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    let (mut lossless, mut reduced, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for (network, format, _) in networks {
        let run = |policy, format| measure(network, BATCH, &options.device, policy, format);
        let without = run(Policy::Auto, format);
        let mut show = |name: &str, measured: Measured| {
            let row = Row::new(measured, without);
            let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
            println!(
                "| {network} | {name} | {:.0} MiB | {:.2}x | {:.0} MiB | {:.2}x | {:.0} MiB | {:.2}x | {:.1} ms | {:+.1} % |",
                mib(measured.stash_bytes),
                row.stash,
                mib(measured.peak_bytes),
                row.peak,
                mib(measured.footprint.dynamic_bytes),
                row.dynamic,
                measured.step_ns as f64 / 1e6,
                100.0 * (row.time - 1.0),
            );
            cells.push(json!({
                "table": "Memory and time",
                "network": network,
                "policy": name,
                "stash_mib": mib(measured.stash_bytes),
                "stash_saving_ratio": row.stash,
                "peak_mib": mib(measured.peak_bytes),
                "peak_saving_ratio": row.peak,
                "dynamic_mib": mib(measured.footprint.dynamic_bytes),
                "dynamic_saving_ratio": row.dynamic,
                "step_ms": measured.step_ns as f64 / 1e6,
            }));
            row
        };
        show("none", without);
        lossless.push(show("lossless", run(Policy::GistLossless, format)));
        for &other in FloatFormat::ALL {
            let row = show(other.name(), run(Policy::Gist, other));
            reduced.extend((other == format).then_some(row));
        }
    }
    cells.extend(bandwidth::print());
    options.output.write(cells);
    let best = |of: fn(&Row) -> f64| reduced.iter().map(of).fold(0.0, f64::max);
    let slowest = lossless.iter().chain(&reduced).map(|row| row.time).fold(0.0, f64::max);
    println!(
        "gist: lossless={:.2} dpr={:.2} best={:.2} dynamic={:.2} overhead={:.1}",
        mean(lossless.iter().map(|row| row.stash)),
        mean(reduced.iter().map(|row| row.stash)),
        best(|row| row.stash),
        best(|row| row.dynamic),
        100.0 * (slowest - 1.0),
    );
}
