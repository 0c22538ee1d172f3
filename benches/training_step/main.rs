//! The time of one training step of three networks, backend beside backend, and without fused launches.
//!
//! Backends take turns, step by step, so that what else the machine does meets them all. Every backend computes on
//! rayon's global pool, as wide as the machine or `RAYON_NUM_THREADS`; the matrix product of ndarray has threads of its
//! own, at most four (`MATMUL_NUM_THREADS`). Set both to the same number.

#[allow(dead_code, reason = "the example uses the rest of it")]
#[path = "../../examples/deeper_than_memory/learner.rs"]
mod learner;
#[path = "../../examples/deeper_than_memory/model.rs"]
mod model;
mod networks;
#[path = "../support/results.rs"]
mod results;

use std::time::{Duration, Instant};

use burn::backend::{Autodiff, Flex, NdArray};
use burn::tensor::backend::AutodiffBackend;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure};
use burn_overcommit_examples::digits as data;
use clap::Parser;
use serde_json::json;

use crate::data::{Batch, Digits};
use crate::learner::Learner;
use crate::results::Output;

const BATCH: usize = 32;
const SEED: u64 = 42;
const LEARNING_RATE: f64 = 1e-3;

#[derive(Parser)]
struct Options {
    /// Steps of each backend that count, after two that do not.
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// Only networks whose name contains this.
    #[arg(long, default_value = "")]
    network: String,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Takes one step and gives its loss; reading that waits for the device.
type Step = Box<dyn FnMut() -> f32>;

/// The example's network: residual convolutions, batch normalization, dropout.
fn convolutional<B: AutodiffBackend>(depth: usize, device: &B::Device) -> Step {
    let digits = Digits::load().expect("the shipped file is well formed");
    let batch = Batch::<B>::new(&digits.train[..BATCH], device);
    let mut learner = Some(Learner::<B>::new(depth, SEED, device));
    Box::new(move || {
        let before = learner.take().expect("every step leaves a learner");
        let (after, loss) = before.step(batch.clone(), LEARNING_RATE);
        learner = Some(after);
        loss
    })
}

fn steps<B: AutodiffBackend>(device: &B::Device) -> Vec<(&'static str, Step)> {
    vec![
        ("convolutional, 8 blocks", convolutional::<B>(8, device)),
        ("convolutional, 32 blocks", convolutional::<B>(32, device)),
        ("transformer", networks::transformer::<B>(device)),
        ("lstm", networks::lstm::<B>(device)),
    ]
}

/// The median time of a step, backend by backend.
fn medians(backends: &mut [Step], steps: usize) -> Vec<Duration> {
    let mut times = vec![Vec::new(); backends.len()];
    for round in 0..steps + 2 {
        for (step, times) in backends.iter_mut().zip(&mut times) {
            let start = Instant::now();
            let loss = step();
            let spent = start.elapsed();
            assert!(loss.is_finite(), "a step's loss is {loss}");
            if round >= 2 {
                times.push(spent);
            }
        }
    }
    times.iter_mut().for_each(|times| times.sort());
    times.iter().map(|times| times[times.len() / 2]).collect()
}

fn main() {
    let options = Options::parse();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{:26}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "ms a step", "overcommit", "unfused", "flex", "ndarray", "/ unfused", "/ flex", "/ ndarray"
    );
    // All on the processor, also where there is a GPU.
    let [fused, unfused] = [true, false].map(|fusion| {
        let device = OvercommitDevice::Host(u16::from(!fusion));
        configure(&device, Config::new().fusion(fusion)).expect("a device that nothing uses");
        steps::<Autodiff<Overcommit>>(&device)
    });
    let flex = steps::<Autodiff<Flex>>(&Default::default());
    let ndarray = steps::<Autodiff<NdArray>>(&Default::default());
    let mut cells = Vec::new();
    let others = unfused.into_iter().zip(flex).zip(ndarray);
    for ((name, ours), (((_, unfused), (_, flex)), (_, ndarray))) in fused.into_iter().zip(others) {
        if !name.contains(&options.network) {
            continue;
        }
        let times = medians(&mut [ours, unfused, flex, ndarray], options.steps.max(1));
        let [ours, others @ ..] = [0, 1, 2, 3].map(|which| milliseconds(times[which]));
        let [unfused, flex, ndarray] = others;
        cells.push(json!({
            "network": name,
            "overcommit_ms": ours,
            "unfused_ms": unfused,
            "flex_ms": flex,
            "ndarray_ms": ndarray,
            "overcommit_to_unfused_ratio": ours / unfused,
            "overcommit_to_flex_ratio": ours / flex,
            "overcommit_to_ndarray_ratio": ours / ndarray,
        }));
        let columns = [ours].into_iter().chain(others).chain(others.map(|other| ours / other));
        let columns: String = columns.map(|column| format!("{column:12.2}")).collect();
        println!("{name:26}{columns}");
    }
    options.output.write(cells);
}
