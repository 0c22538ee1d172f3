//! The network of Burn's MNIST example on handwritten digits: convolutions with batch norms and pools, then three linear layers with
//! dropout. It trains with all memory and in half of it, to the same bits.
//!
//! `cargo run --release --example mnist`

use burn::backend::Autodiff;
use burn::lr_scheduler::LrScheduler;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::module::{AutodiffModule, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Gelu, Linear, LinearConfig, PaddingConfig2d, Relu,
};
use burn::optim::{AdamWConfig, GradientsParams, Optimizer};
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Batch, CLASSES, Digits, SIDE, shuffled};
use burn_overcommit_examples::{accuracy, train_in_less, weights_bits};
use indicatif::ProgressBar;

const EPOCHS: usize = 3;
const BATCH: usize = 64;
const CHANNELS: usize = 64;
const HIDDEN: usize = 128;

/// A convolution, and images of half the side.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    convolution: Conv2d<B>,
    norm: BatchNorm<B>,
    activation: Relu,
    pool: MaxPool2d,
}

impl<B: Backend> Block<B> {
    fn new(channels_in: usize, device: &B::Device) -> Self {
        let convolution = Conv2dConfig::new([channels_in, CHANNELS], [3, 3]);
        Block {
            convolution: convolution.with_padding(PaddingConfig2d::Same).init(device),
            norm: BatchNormConfig::new(CHANNELS).init(device),
            activation: Relu::new(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        self.pool.forward(self.activation.forward(self.norm.forward(self.convolution.forward(x))))
    }
}

#[derive(Module, Debug)]
struct Network<B: Backend> {
    blocks: Vec<Block<B>>,
    hidden: Vec<Linear<B>>,
    activation: Gelu,
    dropout: Dropout,
    head: Linear<B>,
}

impl<B: Backend> Network<B> {
    fn new(device: &B::Device) -> Self {
        let pooled_side = SIDE / 4;
        let features = CHANNELS * pooled_side * pooled_side;
        let linear = |inputs| LinearConfig::new(inputs, HIDDEN).init(device);
        Network {
            blocks: [1, CHANNELS].map(|channels_in| Block::new(channels_in, device)).into(),
            hidden: [features, HIDDEN].map(linear).into(),
            activation: Gelu::new(),
            dropout: DropoutConfig::new(0.25).init(),
            head: LinearConfig::new(HIDDEN, CLASSES).init(device),
        }
    }

    /// From images `[batch, 1, side, side]` to scores `[batch, classes]`.
    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let features = self.blocks.iter().fold(images, |x, block| block.forward(x)).flatten(1, 3);
        let hidden = |x, layer: &Linear<B>| self.dropout.forward(self.activation.forward(layer.forward(x)));
        self.head.forward(self.hidden.iter().fold(features, hidden))
    }
}

/// Trains, and returns the bits of the weights and the part of held-out digits that are named correctly.
fn train<B: AutodiffBackend>(digits: &Digits, device: &B::Device) -> (Vec<u32>, f64) {
    B::seed(device, 1);
    let mut network = Network::<B>::new(device);
    let mut optimizer = AdamWConfig::new().with_cautious_weight_decay(true).with_weight_decay(5e-5).init();
    let steps = EPOCHS * (digits.train.len() / BATCH);
    let mut rate = CosineAnnealingLrSchedulerConfig::new(2e-3, steps).init().expect("a valid schedule");
    let loss = CrossEntropyLossConfig::new().init(device);
    let progress = ProgressBar::new(steps as u64);
    for epoch in 0..EPOCHS {
        for chunk in shuffled(&digits.train, 1, epoch).chunks_exact(BATCH) {
            let Batch { images, labels } = Batch::new(chunk, device);
            let gradients = loss.forward(network.forward(images), labels).backward();
            let gradients = GradientsParams::from_grads(gradients, &network);
            network = optimizer.step(rate.step(), network, gradients);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let judged = network.valid();
    let scores = digits.held_out.chunks(BATCH).map(|chunk| {
        let Batch { images, labels } = Batch::new(chunk, device);
        (judged.forward(images), labels)
    });
    (weights_bits(&network), accuracy(scores))
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    let accuracy = train_in_less(&device, 0.5, 1, |_| train::<Autodiff<Overcommit>>(&digits, &device))?;
    println!("{accuracy:.3} of the held-out digits are named correctly, by the same weights to the bit.");
    Ok(())
}
