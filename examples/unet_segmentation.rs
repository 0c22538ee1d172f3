//! A small U-Net says of each pixel whether it is of a circle, of a square or of neither, in noisy images with one of each. What the
//! way down makes is read again on the way up, so it lies in memory for most of a step: the budget is a third of what that comes to.
//! `--deeper 4` trains four times the convolutions in the memory that the network needs without a limit.
//!
//! `cargo run --release --example unet_segmentation [-- --deeper 4]`

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, PaddingConfig2d};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, activation};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::shapes::{CLASSES, Shapes};
use burn_overcommit_examples::{Options, train_in_less, weights_bits};
use clap::Parser;
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const BATCH: usize = 8;
/// Channels at the full side, at a half and at a quarter of it.
const CHANNELS: [usize; 3] = [8, 16, 32];
/// Convolutions at each size, on the way down and on the way up.
const DEPTH: usize = 2;

/// Convolutions at one size, each with its norm.
type Level<B> = Vec<(Conv2d<B>, BatchNorm<B>)>;

fn level<B: Backend>([inputs, outputs]: [usize; 2], depth: usize, device: &B::Device) -> Level<B> {
    let layer = |at| {
        let convolution = Conv2dConfig::new([if at == 0 { inputs } else { outputs }, outputs], [3, 3]);
        let convolution = convolution.with_padding(PaddingConfig2d::Same).init(device);
        (convolution, BatchNormConfig::new(outputs).init(device))
    };
    (0..depth).map(layer).collect()
}

fn convolve<B: Backend>(x: Tensor<B, 4>, level: &Level<B>) -> Tensor<B, 4> {
    level.iter().fold(x, |x, (convolution, norm)| activation::relu(norm.forward(convolution.forward(x))))
}

#[derive(Module, Debug)]
struct UNet<B: Backend> {
    down: Vec<Level<B>>,
    pool: MaxPool2d,
    raise: Vec<ConvTranspose2d<B>>,
    up: Vec<Level<B>>,
    head: Conv2d<B>,
}

impl<B: Backend> UNet<B> {
    fn new(depth: usize, device: &B::Device) -> Self {
        let [full, half, quarter] = CHANNELS;
        let level = |channels| level(channels, depth, device);
        let raise = |channels| ConvTranspose2dConfig::new(channels, [2, 2]).with_stride([2, 2]).init(device);
        UNet {
            down: [[1, full], [full, half], [half, quarter]].map(level).into(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            raise: [[quarter, half], [half, full]].map(raise).into(),
            up: [[2 * half, half], [2 * full, full]].map(level).into(),
            head: Conv2dConfig::new([full, CLASSES.len()], [1, 1]).init(device),
        }
    }

    /// From images `[batch, 1, side, side]` to scores `[pixels, classes]`.
    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let (mut x, mut kept) = (images, Vec::new());
        for (at, level) in self.down.iter().enumerate() {
            x = convolve(if at == 0 { x } else { self.pool.forward(x) }, level);
            kept.push(x.clone());
        }
        // The lowest level is where the way up begins.
        kept.pop();
        for (raise, level) in self.raise.iter().zip(&self.up) {
            let beside = kept.pop().expect("each level up has one down");
            x = convolve(Tensor::cat(vec![beside, raise.forward(x)], 1), level);
        }
        self.head.forward(x).permute([0, 2, 3, 1]).flatten::<2>(0, 2)
    }
}

/// Trains, and returns the bits of the weights and the overlaps in images that it has not seen.
fn train<B: AutodiffBackend>(depth: usize, steps: usize, device: &B::Device) -> (Vec<u32>, [f64; 3]) {
    B::seed(device, 1);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut network = UNet::<B>::new(depth, device);
    let mut optimizer = AdamConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(device);
    let progress = ProgressBar::new(steps as u64);
    for _ in 0..steps {
        let shapes = Shapes::<B>::draw(BATCH, &mut random, device);
        let gradients = loss.forward(network.forward(shapes.images), shapes.classes).backward();
        let gradients = GradientsParams::from_grads(gradients, &network);
        network = optimizer.step(2e-2, network, gradients);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let unseen = Shapes::draw(BATCH, &mut random, device);
    let scores = network.valid().forward(unseen.images.clone());
    (weights_bits(&network), unseen.intersection_over_union(scores))
}

fn run(Options { deeper, steps }: Options) -> Result<(), Error> {
    let device = OvercommitDevice::default();
    let overlaps = train_in_less(&device, 1.0 / 3.0, deeper, |times| {
        train::<Autodiff<Overcommit>>(times * DEPTH, steps, &device)
    })?;
    for (class, overlap) in CLASSES.iter().zip(overlaps) {
        println!("{class}: intersection over union {overlap:.2}");
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    run(Options::parse())
}
