//! A bidirectional LSTM tells the frequency of noisy waves. A recurrence is one small op after the other, a thousand in a step: here
//! a budget is met by many small evictions. `--deeper 4` stacks four times the layers in the memory that one needs.
//!
//! `cargo run --release --example lstm [-- --deeper 4]`

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{BiLstm, BiLstmConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Distribution, ElementConversion, Tensor};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::{Options, train_in_less, weights_bits};
use clap::Parser;
use indicatif::ProgressBar;

const LENGTH: usize = 32;
const BATCH: usize = 32;
const WIDTH: usize = 32;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    layers: Vec<BiLstm<B>>,
    head: Linear<B>,
}

impl<B: Backend> Network<B> {
    fn new(layers: usize, device: &B::Device) -> Self {
        let layer = |at| BiLstmConfig::new(if at == 0 { 1 } else { 2 * WIDTH }, WIDTH, true).init(device);
        Network {
            layers: (0..layers).map(layer).collect(),
            head: LinearConfig::new(2 * WIDTH, 1).init(device),
        }
    }

    /// From waves `[batch, length, 1]` to frequencies `[batch, 1]`.
    fn forward(&self, waves: Tensor<B, 3>) -> Tensor<B, 2> {
        let states = self.layers.iter().fold(waves, |x, layer| layer.forward(x, None).0);
        self.head.forward(states.mean_dim(1).flatten(1, 2))
    }
}

/// Waves with noise, and their frequencies.
fn waves<B: Backend>(device: &B::Device) -> (Tensor<B, 3>, Tensor<B, 2>) {
    let frequencies = Tensor::<B, 2>::random([BATCH, 1], Distribution::Uniform(0.1, 0.8), device);
    let times = Tensor::arange(0..LENGTH as i64, device).float().reshape([1, LENGTH]);
    let waves = (frequencies.clone() * times).sin();
    let noise = waves.random_like(Distribution::Normal(0.0, 0.1));
    ((waves + noise).unsqueeze_dim(2), frequencies)
}

/// Trains, and returns the bits of the weights and the last loss.
fn train<B: AutodiffBackend>(layers: usize, steps: usize, device: &B::Device) -> (Vec<u32>, f32) {
    B::seed(device, 1);
    let mut network = Network::<B>::new(layers, device);
    let mut optimizer = AdamConfig::new().init();
    let progress = ProgressBar::new(steps as u64);
    let mut last = 0.0;
    for _ in 0..steps {
        let (waves, frequencies) = waves::<B>(device);
        let loss = MseLoss::new().forward(network.forward(waves), frequencies, Reduction::Mean);
        last = loss.clone().into_scalar().elem();
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(5e-3, network, gradients);
        progress.inc(1);
    }
    progress.finish_and_clear();
    (weights_bits(&network), last)
}

fn run(Options { deeper, steps }: Options) -> Result<(), Error> {
    let device = OvercommitDevice::default();
    let loss =
        train_in_less(&device, 0.5, deeper, |times| train::<Autodiff<Overcommit>>(times, steps, &device))?;
    println!("the mean square error of a frequency is {loss:.4}");
    Ok(())
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    run(Options::parse())
}
