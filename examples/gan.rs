//! A generator and a critic play against each other on handwritten digits: a Wasserstein GAN (Arjovsky, Chintala and Bottou, 2017).
//! Both, with their optimizers, are on one device in half of the memory that they need.
//!
//! `cargo run --release --example gan`

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module, ModuleMapper, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{GradientsParams, Optimizer, RmsPropConfig};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Distribution, Tensor, activation};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Batch, Digits, SIDE, shuffled};
use burn_overcommit_examples::{train_in_less, weights_bits};
use indicatif::ProgressBar;

const EPOCHS: usize = 2;
const BATCH: usize = 64;
const CHANNELS: usize = 32;
const NOISE: usize = 16;
/// The critic learns from so many batches for each of the generator's.
const CRITIC_STEPS: usize = 3;
/// The critic's weights are clamped to this, so that it cannot be arbitrarily steep.
const MAX_WEIGHT: f64 = 0.05;

#[derive(Module, Debug)]
struct Generator<B: Backend> {
    stem: Linear<B>,
    norm: BatchNorm<B>,
    upper: ConvTranspose2d<B>,
    last: Conv2d<B>,
}

impl<B: Backend> Generator<B> {
    fn new(device: &B::Device) -> Self {
        let upper = ConvTranspose2dConfig::new([CHANNELS, CHANNELS], [2, 2]).with_stride([2, 2]);
        Generator {
            stem: LinearConfig::new(NOISE, CHANNELS * SIDE * SIDE / 4).init(device),
            norm: BatchNormConfig::new(CHANNELS).init(device),
            upper: upper.init(device),
            last: Conv2dConfig::new([CHANNELS, 1], [3, 3]).with_padding(PaddingConfig2d::Same).init(device),
        }
    }

    fn forward(&self, noise: Tensor<B, 2>) -> Tensor<B, 4> {
        let [batch, _] = noise.dims();
        let x = self.stem.forward(noise).reshape([batch, CHANNELS, SIDE / 2, SIDE / 2]);
        let x = activation::relu(self.norm.forward(x));
        activation::sigmoid(self.last.forward(activation::relu(self.upper.forward(x))))
    }
}

#[derive(Module, Debug)]
struct Critic<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    head: Linear<B>,
}

impl<B: Backend> Critic<B> {
    fn new(device: &B::Device) -> Self {
        let convolution = |inputs| {
            let config = Conv2dConfig::new([inputs, CHANNELS], [3, 3]);
            config.with_padding(PaddingConfig2d::Same).init(device)
        };
        Critic {
            convolutions: [1, CHANNELS].map(convolution).into(),
            head: LinearConfig::new(CHANNELS * SIDE * SIDE, 1).init(device),
        }
    }

    /// How real each image looks, in the mean.
    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 1> {
        let convolved = |x, layer: &Conv2d<B>| activation::leaky_relu(layer.forward(x), 0.2);
        self.head.forward(self.convolutions.iter().fold(images, convolved).flatten::<2>(1, 3)).mean()
    }
}

/// Clamps every weight.
struct Clamp;

impl<B: AutodiffBackend> ModuleMapper<B> for Clamp {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|weight| Tensor::from_inner(weight.inner().clamp(-MAX_WEIGHT, MAX_WEIGHT)).require_grad())
    }
}

/// Trains both, and returns the bits of the generator's weights.
fn train<B: AutodiffBackend>(digits: &Digits, device: &B::Device) -> Vec<u32> {
    B::seed(device, 1);
    let (mut generator, mut critic) = (Generator::<B>::new(device), Critic::<B>::new(device));
    let (mut generators, mut critics) = (RmsPropConfig::new().init(), RmsPropConfig::new().init());
    let noise = || Tensor::<B, 2>::random([BATCH, NOISE], Distribution::Normal(0.0, 1.0), device);
    let progress = ProgressBar::new((EPOCHS * (digits.train.len() / BATCH)) as u64);
    for epoch in 0..EPOCHS {
        for (step, chunk) in shuffled(&digits.train, 1, epoch).chunks_exact(BATCH).enumerate() {
            let real = Batch::<B>::new(chunk, device).images;
            // Without gradients: a forward pass that no backward pass follows stays in memory until the next one.
            let made = Tensor::from_inner(generator.valid().forward(noise().inner()));
            let loss = critic.forward(made) - critic.forward(real);
            let gradients = GradientsParams::from_grads(loss.backward(), &critic);
            critic = critics.step(5e-4, critic, gradients).map(&mut Clamp);
            if step % CRITIC_STEPS == 0 {
                let loss = -critic.forward(generator.forward(noise()));
                let gradients = GradientsParams::from_grads(loss.backward(), &generator);
                generator = generators.step(5e-4, generator, gradients);
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    weights_bits(&generator)
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    train_in_less(&device, 0.5, 1, |_| (train::<Autodiff<Overcommit>>(&digits, &device), ()))?;
    Ok(())
}
