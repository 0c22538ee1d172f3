//! Trains a residual network on handwritten digits in a quarter of the memory it needs, then one four times deeper in the memory that
//! the first needed, and checks that losses and weights have the bits of unlimited memory.

use std::error::Error;
use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData, activation};

use crate::face::{Config, OvercommitDevice, Stats, device_on, stats};

/// Records of 64 pixels from 0 to 16 and a label.
static DIGITS: &[u8] = include_bytes!("../../data/optdigits.bin");
const SIDE: usize = 8;
const CLASSES: usize = 10;
const RECORD_BYTES: usize = SIDE * SIDE + 1;
/// Of so many images one is held out.
const FOLDS: usize = 6;
const BATCH: usize = 64;
const CHANNELS: usize = 16;
const EPOCHS: usize = 4;

#[derive(Module, Debug)]
struct Network {
    stem: Normalized,
    blocks: Vec<[Normalized; 2]>,
    pool: MaxPool2d,
    head: Linear,
}

impl Network {
    fn new(depth: usize, device: &Device) -> Self {
        let new = |channels| Normalized::new(channels, device);
        Network {
            stem: new(1),
            blocks: (0..depth).map(|_| [new(CHANNELS), new(CHANNELS)]).collect(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            head: LinearConfig::new(CHANNELS * SIDE * SIDE / 4, CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let stem = activation::relu(self.stem.forward(images));
        let features = self.blocks.iter().fold(stem, |input, [first, second]| {
            let inner = activation::relu(first.forward(input.clone()));
            activation::relu(input + second.forward(inner))
        });
        self.head.forward(self.pool.forward(features).flatten(1, 3))
    }
}

/// A convolution that keeps the image's size, and its batch normalization.
#[derive(Module, Debug)]
struct Normalized {
    convolution: Conv2d,
    norm: BatchNorm,
}

impl Normalized {
    fn new(channels: usize, device: &Device) -> Self {
        let convolution = Conv2dConfig::new([channels, CHANNELS], [3, 3])
            .with_padding(PaddingConfig2d::Same)
            .with_bias(false);
        Normalized {
            convolution: convolution.init(device),
            norm: BatchNormConfig::new(CHANNELS).init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.convolution.forward(x))
    }
}

fn batch(digits: &[&[u8]], device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let pixels: Vec<f32> =
        digits.iter().flat_map(|digit| &digit[..SIDE * SIDE]).map(|&pixel| f32::from(pixel) / 16.0).collect();
    let labels: Vec<i32> = digits.iter().map(|digit| i32::from(digit[SIDE * SIDE])).collect();
    let images = TensorData::new(pixels, [digits.len(), 1, SIDE, SIDE]);
    (Tensor::from_data(images, device), Tensor::from_data(TensorData::new(labels, [digits.len()]), device))
}

/// What training leaves: bits of losses and weights.
#[derive(Default, PartialEq)]
struct Bits(Vec<u32>);

impl ModuleVisitor for Bits {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().into_data().iter::<f32>().map(f32::to_bits));
    }
}

struct Trained {
    bits: Bits,
    stats: Stats,
    accuracy: f64,
    step_ms: f64,
}

fn train(depth: usize, budget_bytes: Option<usize>) -> Result<Trained, Box<dyn Error>> {
    let name = OvercommitDevice::default();
    let plain = device_on(name, budget_bytes.into_iter().fold(Config::new(), Config::budget_bytes))?;
    let device = plain.clone().autodiff();
    device.seed(42);
    let mut network = Network::new(depth, &device);
    // Burn draws weights when they are first looked at.
    network.visit(&mut Bits::default());
    let mut optimizer = AdamConfig::new().init();
    let mut bits = Bits::default();
    let records: Vec<&[u8]> = DIGITS.chunks_exact(RECORD_BYTES).collect();
    let (held_out, train): (Vec<_>, Vec<_>) =
        records.iter().enumerate().partition(|(at, _)| at % FOLDS == FOLDS - 1);
    let [held_out, train] =
        [held_out, train].map(|part| part.into_iter().map(|(_, digit)| *digit).collect::<Vec<_>>());
    let start = Instant::now();
    for digits in (0..EPOCHS).flat_map(|_| train.chunks_exact(BATCH)) {
        let (images, labels) = batch(digits, &device);
        let loss = CrossEntropyLossConfig::new().init(&device).forward(network.forward(images), labels);
        bits.0.push(loss.clone().into_scalar::<f32>().to_bits());
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(2e-3, network, gradients);
    }
    let step_ms = start.elapsed().as_secs_f64() * 1e3 / (EPOCHS * (train.len() / BATCH)) as f64;
    let stats = stats(&name)?;
    network.visit(&mut bits);
    let network = network.valid();
    let (images, labels) = batch(&held_out, &plain);
    let named = network.forward(images).argmax(1).flatten::<1>(0, 1);
    let correct = named.equal(labels).into_data().iter::<bool>().filter(|&correct| correct).count();
    Ok(Trained { bits, stats, accuracy: correct as f64 / held_out.len() as f64, step_ms })
}

pub fn main() -> Result<(), Box<dyn Error>> {
    println!("depth   budget KiB     peak KiB  offloaded KiB  recomputed KiB  step ms  accuracy");
    let show = |depth: usize, budget_bytes: Option<usize>, trained: &Trained| {
        let kib = |bytes: usize| bytes / 1024;
        let counters = &trained.stats.counters;
        let budget = budget_bytes.map_or("unlimited".to_owned(), |bytes| kib(bytes).to_string());
        println!(
            "{depth:>5} {budget:>12} {:>12} {:>14} {:>15} {:>8.1} {:>9.3}",
            kib(trained.stats.peak_allocated_bytes),
            kib(counters.offloaded_bytes as usize),
            kib(counters.recomputed_bytes as usize),
            trained.step_ms,
            trained.accuracy
        );
    };
    let mut needs_bytes = Vec::new();
    for depth in [8, 32] {
        let free = train(depth, None)?;
        show(depth, None, &free);
        needs_bytes.push(free.stats.peak_allocated_bytes);
        // The deeper one has what the first needed.
        let budget_bytes = if depth == 8 { needs_bytes[0] / 4 } else { needs_bytes[0] };
        let budgeted = train(depth, Some(budget_bytes))?;
        show(depth, Some(budget_bytes), &budgeted);
        if budgeted.stats.peak_allocated_bytes > budget_bytes {
            return Err("more memory was used than the budget".into());
        }
        if budgeted.bits != free.bits {
            return Err("losses or weights differ from those of unlimited memory".into());
        }
    }
    println!("Losses and weights have the bits of unlimited memory.");
    Ok(())
}
