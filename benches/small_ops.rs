//! The time of a training step whose ops are small, beside burn-flex: a recurrent network of 32 units, normalized, in both
//! directions, over batches that are put together from one tensor for each sequence. So an op takes microseconds, and what comes
//! before it counts.
//!
//! Backends take turns, step by step, so that what else the machine does meets both.

#[path = "support/results.rs"]
mod results;

use std::time::{Duration, Instant};

use burn::backend::{Autodiff, Flex};
use burn::grad_clipping::GradientClippingConfig;
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Tensor};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, stats};
use clap::Parser;
use serde_json::json;

use crate::results::Output;

const BATCH: usize = 32;
const LENGTH: usize = 11;
const UNITS: usize = 32;
const SEED: u64 = 5;
/// The backends.
const NAMES: [&str; 2] = ["burn-overcommit", "burn-flex"];
const LEARNING_RATE: f64 = 1e-3;

#[derive(Parser)]
struct Options {
    /// Steps of each backend that count, after as many as a tenth of them that do not.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// One of them alone, for a profiler.
    #[arg(long, value_parser = NAMES)]
    only: Option<String>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A recurrent cell whose gates, cell state and hidden state are normalized.
#[derive(Module, Debug)]
struct Cell<B: Backend> {
    from_input: Linear<B>,
    from_hidden: Linear<B>,
    norms: Vec<LayerNorm<B>>,
}

/// What a cell passes on: its hidden state and its cell state.
type State<B> = [Tensor<B, 2>; 2];

impl<B: Backend> Cell<B> {
    fn new(inputs: usize, device: &B::Device) -> Self {
        let linear = |inputs| LinearConfig::new(inputs, 4 * UNITS).init(device);
        Cell {
            from_input: linear(inputs),
            from_hidden: linear(UNITS),
            norms: [4 * UNITS, UNITS, UNITS].map(|width| LayerNormConfig::new(width).init(device)).into(),
        }
    }

    fn step(&self, input: Tensor<B, 2>, [hidden, cell]: State<B>) -> State<B> {
        let gates = self.norms[0].forward(self.from_input.forward(input)) + self.from_hidden.forward(hidden);
        let gates: [Tensor<B, 2>; 4] = gates.chunk(4, 1).try_into().expect("there are four gates");
        let [enter, keep, candidate, leave] = gates;
        let cell = sigmoid(keep) * cell + sigmoid(enter) * tanh(candidate);
        let cell = self.norms[1].forward(cell);
        [self.norms[2].forward(sigmoid(leave) * tanh(cell.clone())), cell]
    }
}

/// Two layers of cells in each direction.
#[derive(Module, Debug)]
struct Recurrent<B: Backend> {
    directions: Vec<Vec<Cell<B>>>,
    head: Linear<B>,
}

impl<B: Backend> Recurrent<B> {
    fn new(device: &B::Device) -> Self {
        let layers = || vec![Cell::new(1, device), Cell::new(UNITS, device)];
        Recurrent { directions: vec![layers(), layers()], head: LinearConfig::new(2 * UNITS, 1).init(device) }
    }

    /// A number for each of the sequences `[batch, length, 1]`.
    fn forward(&self, sequences: Tensor<B, 3>) -> Tensor<B, 2> {
        let [batch, length, _] = sequences.dims();
        let device = sequences.device();
        let backward = sequences.clone().flip([1]);
        let last = self.directions.iter().zip([sequences, backward]).map(|(cells, sequences)| {
            let nothing = || Tensor::<B, 2>::zeros([batch, UNITS], &device);
            let mut states: Vec<State<B>> = cells.iter().map(|_| [nothing(), nothing()]).collect();
            let outputs = (0..length).map(|at| {
                let mut input = sequences.clone().narrow(1, at, 1).squeeze_dim::<2>(1);
                for (cell, state) in cells.iter().zip(&mut states) {
                    *state = cell.step(input, state.clone());
                    input = state[0].clone();
                }
                input
            });
            Tensor::stack::<3>(outputs.collect(), 1)
        });
        let outputs = Tensor::cat(last.collect(), 2);
        self.head.forward(outputs.narrow(1, length - 1, 1).squeeze_dim::<2>(1))
    }
}

/// Sequences, each a tensor before they are a batch, and what comes next in each.
fn batch<B: Backend>(number: usize, device: &B::Device) -> (Tensor<B, 3>, Tensor<B, 2>) {
    let value = |row: usize, at: usize| ((number * BATCH + row) as f32 * 0.37 + at as f32 * 0.61).sin();
    let row = |row: usize| -> Vec<f32> { (0..=LENGTH).map(|at| value(row, at)).collect() };
    let rows: Vec<Vec<f32>> = (0..BATCH).map(row).collect();
    let sequence = |row: &Vec<f32>| Tensor::<B, 1>::from_floats(&row[..LENGTH], device).unsqueeze_dim::<2>(1);
    let target = |row: &Vec<f32>| Tensor::<B, 1>::from_floats(&row[LENGTH..], device);
    let sequences = Tensor::stack(rows.iter().map(sequence).collect(), 0);
    (sequences, Tensor::stack(rows.iter().map(target).collect(), 0))
}

/// Takes the next step and gives its loss; reading that waits for the device.
type Step = Box<dyn FnMut() -> f32>;

fn steps<B: AutodiffBackend>(device: B::Device) -> Step {
    B::seed(&device, SEED);
    let mut network = Some(Recurrent::<B>::new(&device));
    let clipping = GradientClippingConfig::Norm(1.0);
    let mut optimizer = AdamConfig::new().with_grad_clipping(Some(clipping)).init();
    let mut number = 0;
    Box::new(move || {
        let before = network.take().expect("every step leaves a network");
        let (sequences, targets) = batch::<B>(number, &device);
        number += 1;
        let loss = MseLoss::new().forward(before.forward(sequences), targets, Reduction::Mean);
        let value = loss.clone().into_scalar().elem();
        let gradients = GradientsParams::from_grads(loss.backward(), &before);
        network = Some(optimizer.step(LEARNING_RATE, before, gradients));
        value
    })
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

fn main() {
    let options = Options::parse();
    let device = OvercommitDevice::Host(0);
    configure(&device, Config::new()).expect("a device that nothing uses");
    let mut backends = [steps::<Autodiff<Overcommit>>(device), steps::<Autodiff<Flex>>(Default::default())];
    let mut times = [Vec::new(), Vec::new()];
    let (count, warm) = (options.steps.max(1), options.steps / 10);
    let ops = || stats(&device).expect("a device that is there").counters.ops;
    let mut before = ops();
    for round in 0..warm + count {
        if round == warm {
            before = ops();
        }
        for ((name, step), times) in NAMES.iter().zip(&mut backends).zip(&mut times) {
            if options.only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let start = Instant::now();
            let loss = step();
            let spent = start.elapsed();
            assert!(loss.is_finite(), "a step's loss is {loss}");
            if round >= warm {
                times.push(spent);
            }
        }
    }
    let ops_a_step = (ops() - before) as f64 / count as f64;
    let [ours_ms, flex_ms] = times.map(|times| Some(1e3 * median(times)?.as_secs_f64()));
    let us_per_op = ours_ms.map(|ms| ms * 1e3 / ops_a_step);
    if let (Some(ms), Some(us)) = (ours_ms, us_per_op) {
        println!("burn-overcommit: {ms:.2} ms a step of {ops_a_step:.0} ops, {us:.2} us an op");
    }
    if let Some(ms) = flex_ms {
        println!("burn-flex: {ms:.2} ms a step");
    }
    let ratio = ours_ms.zip(flex_ms).map(|(ours, flex)| ours / flex);
    if let Some(ratio) = ratio {
        println!("ratio: {ratio:.2}");
    }
    options.output.write(vec![json!({
        "run": options.only.as_deref().map_or("in turn".to_string(), |only| format!("{only} alone")),
        "ops": ours_ms.map(|_| ops_a_step),
        "overcommit_ms": ours_ms,
        "overcommit_us_per_op": us_per_op,
        "flex_ms": flex_ms,
        "overcommit_to_flex_ratio": ratio,
    })]);
}
