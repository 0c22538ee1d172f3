//! A whole run, from seed to final weights. What it returns holds no tensor, so the device is empty afterwards.

use std::error::Error;
use std::time::Instant;

use burn::lr_scheduler::LrScheduler;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::tensor::backend::{AutodiffBackend, Backend};
use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressStyle};

use crate::data::{Batch, Digit, Digits, shuffled};
use crate::learner::Learner;
use crate::memory::{Memory, Usage};
use crate::model::Network;
use burn_overcommit_examples::weights_bits;

/// Falls along a cosine to nothing: the last steps, of few images each, no longer throw the result about.
const LEARNING_RATE: f64 = 2e-3;

/// From the third step on, Adam has all of its state.
const STEPS_TO_STEADY: usize = 4;

/// What is trained, for how long, and in how much memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    pub depth: usize,
    pub batch: usize,
    pub epochs: usize,
    pub seed: u64,
    pub budget_bytes: Option<u64>,
}

/// What came of a setup, once trained.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub setup: Setup,
    pub losses: Vec<f32>,
    /// Every parameter and running statistic, in the order of the network, bit by bit.
    pub weights_bits: Vec<u32>,
    /// The median: a pause of the machine during one step does not count.
    pub step_ns: u64,
    pub usage: Usage,
    /// Of the held-out images, the fraction named correctly.
    pub accuracy: f64,
}

impl Outcome {
    /// Whether two runs are the same computation: not close, equal.
    pub fn is_identical_to(&self, other: &Outcome) -> bool {
        let bits = |losses: &[f32]| -> Vec<u32> { losses.iter().map(|loss| loss.to_bits()).collect() };
        bits(&self.losses) == bits(&other.losses) && self.weights_bits == other.weights_bits
    }
}

/// Trains as planned and judges the result by the held-out digits.
pub fn run<B: AutodiffBackend>(
    setup: Setup,
    digits: &Digits,
    device: &B::Device,
    memory: &impl Memory,
) -> Result<Outcome, Box<dyn Error>> {
    let steps_per_epoch = digits.train.len() / setup.batch;
    if steps_per_epoch == 0 {
        return Err(
            format!("a batch of {} is more than the {} images", setup.batch, digits.train.len()).into()
        );
    }
    memory.limit(setup.budget_bytes)?;
    let steps = steps_per_epoch * setup.epochs;
    let progress = progress(&setup, steps);
    let mut learning_rate = CosineAnnealingLrSchedulerConfig::new(LEARNING_RATE, steps).init()?;
    let mut learner = Learner::<B>::new(setup.depth, setup.seed, device);
    let (mut losses, mut steps_ns) = (Vec::new(), Vec::new());
    for epoch in 0..setup.epochs {
        // Whole batches only: every step has the same shapes, so every step costs the same.
        for digits in shuffled(&digits.train, setup.seed, epoch).chunks_exact(setup.batch) {
            let start = Instant::now();
            let (next, loss) = learner.step(Batch::new(digits, device), learning_rate.step());
            steps_ns.push(start.elapsed().as_nanos() as u64);
            learner = next;
            losses.push(loss);
            show(&progress, loss, memory.usage());
        }
    }
    let usage = memory.usage();
    progress.finish();
    let network = learner.valid();
    Ok(Outcome {
        setup,
        losses,
        weights_bits: weights_bits(&network),
        step_ns: median(steps_ns),
        usage,
        accuracy: accuracy(&network, &digits.held_out, setup.batch, device),
    })
}

/// The most bytes that a step holds on a backend that stores the result of each op, such as burn-flex.
pub fn bytes_op_by_op<B: AutodiffBackend>(
    setup: Setup,
    digits: &Digits,
    device: &B::Device,
    memory: &impl Memory,
) -> Result<u64, Box<dyn Error>> {
    memory.go_op_by_op()?;
    let mut learner = Learner::<B>::new(setup.depth, setup.seed, device);
    for digits in digits.train.chunks_exact(setup.batch).take(STEPS_TO_STEADY) {
        learner = learner.step(Batch::new(digits, device), LEARNING_RATE).0;
    }
    Ok(memory.usage().peak_bytes)
}

/// On stderr, and only where that is a terminal.
fn progress(setup: &Setup, steps: usize) -> ProgressBar {
    let template = "{prefix:<26} {wide_bar} {pos:>4}/{len} {elapsed:>4} {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    let budget = setup.budget_bytes.map_or("unlimited".into(), |bytes| ByteSize(bytes).to_string());
    ProgressBar::new(steps as u64).with_style(style).with_prefix(format!("depth {} in {budget}", setup.depth))
}

fn show(progress: &ProgressBar, loss: f32, usage: Usage) {
    progress.set_message(match usage.peak_bytes {
        0 => format!("loss {loss:.4}"),
        _ => format!("loss {loss:.4} memory {}", ByteSize(usage.allocated_bytes)),
    });
    progress.inc(1);
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn accuracy<B: Backend>(network: &Network<B>, digits: &[Digit], batch: usize, device: &B::Device) -> f64 {
    let correct = |digits: &[Digit]| {
        let batch = Batch::<B>::new(digits, device);
        let named = network.forward(batch.images).argmax(1).flatten::<1>(0, 1);
        named.equal(batch.labels).into_data().iter::<bool>().filter(|&correct| correct).count()
    };
    digits.chunks(batch).map(correct).sum::<usize>() as f64 / digits.len() as f64
}
