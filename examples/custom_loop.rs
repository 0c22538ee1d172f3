//! A training loop of one's own, on handwritten digits: gradients accumulated over several batches, clipped by their norm, a learning
//! rate that warms up and falls, and an evaluation after each epoch. It runs with all memory and in a third of it, to the same bits.
//!
//! `cargo run --release --example custom_loop`

use burn::backend::Autodiff;
use burn::grad_clipping::GradientClippingConfig;
use burn::lr_scheduler::LrScheduler;
use burn::lr_scheduler::noam::NoamLrSchedulerConfig;
use burn::module::{AutodiffModule, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamWConfig, GradientsAccumulator, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, activation};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Batch, CLASSES, Digits, SIDE, shuffled};
use burn_overcommit_examples::{accuracy, train_in_less, weights_bits};
use indicatif::ProgressBar;

const EPOCHS: usize = 6;
const BATCH: usize = 64;
/// So many batches make a step.
const ACCUMULATED: usize = 2;
const CHANNELS: usize = 24;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    head: Linear<B>,
}

impl<B: Backend> Network<B> {
    fn new(device: &B::Device) -> Self {
        let convolution = |channels_in| {
            let config = Conv2dConfig::new([channels_in, CHANNELS], [3, 3]);
            config.with_padding(PaddingConfig2d::Same).init(device)
        };
        let convolutions = [1].into_iter().chain([CHANNELS; 5]).map(convolution).collect();
        Network { convolutions, head: LinearConfig::new(CHANNELS * SIDE * SIDE, CLASSES).init(device) }
    }

    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let convolved = |x, layer: &Conv2d<B>| activation::relu(layer.forward(x));
        self.head.forward(self.convolutions.iter().fold(images, convolved).flatten(1, 3))
    }
}

/// Trains from the seed on. Returns the weights' bits and the accuracy.
fn train<B: AutodiffBackend>(digits: &Digits, device: &B::Device) -> (Vec<u32>, f64) {
    B::seed(device, 1);
    let mut network = Network::<B>::new(device);
    let clipping = GradientClippingConfig::Norm(1.0);
    let mut optimizer = AdamWConfig::new().with_grad_clipping(Some(clipping)).init();
    let mut schedule = NoamLrSchedulerConfig::new(0.1)
        .with_warmup_steps(5)
        .with_model_size(64)
        .init()
        .expect("a valid schedule");
    let loss = CrossEntropyLossConfig::new().init(device);
    let mut held_out = 0.0;
    let progress = ProgressBar::new((EPOCHS * (digits.train.len() / BATCH)) as u64);
    for epoch in 0..EPOCHS {
        let mut accumulator = GradientsAccumulator::new();
        for (batch, chunk) in shuffled(&digits.train, 1, epoch).chunks_exact(BATCH).enumerate() {
            let Batch { images, labels } = Batch::new(chunk, device);
            let loss = loss.forward(network.forward(images), labels) / ACCUMULATED as f64;
            accumulator.accumulate(&network, GradientsParams::from_grads(loss.backward(), &network));
            if (batch + 1) % ACCUMULATED == 0 {
                network = optimizer.step(schedule.step(), network, accumulator.grads());
            }
            progress.inc(1);
        }
        let network = network.valid();
        held_out = accuracy(digits.held_out.chunks(BATCH).map(|chunk| {
            let Batch { images, labels } = Batch::new(chunk, device);
            (network.forward(images), labels)
        }));
        progress.set_message(format!("accuracy {held_out:.3}"));
    }
    progress.finish_and_clear();
    (weights_bits(&network), held_out)
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    let accuracy = train_in_less(&device, 1.0 / 3.0, 1, |_| train::<Autodiff<Overcommit>>(&digits, &device))?;
    println!("{accuracy:.3} of the held-out digits are named correctly, by the same weights to the bit.");
    Ok(())
}
