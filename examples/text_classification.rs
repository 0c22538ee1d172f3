//! A small transformer tells prose, Rust and CUDA apart by 128 letters of them: pieces of this crate's own files. What attention keeps
//! grows with the square of the sequence, and the budget is a quarter of what it comes to. `--deeper 4` trains four times the blocks
//! in the memory that the network needs without a limit.
//!
//! `cargo run --release --example text_classification [-- --deeper 4]`

use std::ops::Range;

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::letters::{LETTERS, letters, rows};
use burn_overcommit_examples::{Options, accuracy, train_in_less, weights_bits};
use clap::Parser;
use indicatif::ProgressBar;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A text of each class.
const TEXTS: [&str; 3] = [
    include_str!("../ARCHITECTURE.md"),
    include_str!("../src/dry_run.rs"),
    include_str!("../kernels/functions.cuh"),
];
const LENGTH: usize = 128;
const BATCH: usize = 6;
const WIDTH: usize = 32;
const BLOCKS: usize = 2;

#[derive(Module, Debug)]
struct Classifier<B: Backend> {
    letters: Embedding<B>,
    places: Embedding<B>,
    blocks: TransformerEncoder<B>,
    head: Linear<B>,
}

impl<B: Backend> Classifier<B> {
    fn new(blocks: usize, device: &B::Device) -> Self {
        let blocks = TransformerEncoderConfig::new(WIDTH, 4 * WIDTH, 4, blocks)
            .with_norm_first(true)
            .with_dropout(0.1);
        Classifier {
            letters: EmbeddingConfig::new(LETTERS, WIDTH).init(device),
            places: EmbeddingConfig::new(LENGTH, WIDTH).init(device),
            blocks: blocks.init(device),
            head: LinearConfig::new(WIDTH, TEXTS.len()).init(device),
        }
    }

    /// From letters `[batch, length]` to scores `[batch, classes]`.
    fn forward(&self, letters: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let ([_, length], device) = (letters.dims(), letters.device());
        let places = Tensor::arange(0..length as i64, &device).unsqueeze();
        let x = self.letters.forward(letters) + self.places.forward(places);
        let x = self.blocks.forward(TransformerEncoderInput::new(x));
        self.head.forward(x.mean_dim(1).flatten(1, 2))
    }
}

/// Pieces of the texts, as many of each, and their classes. `part` is where in the texts they lie: the network learns from one part
/// and is judged by another.
fn pieces<B: Backend>(
    random: &mut ChaCha8Rng,
    part: Range<f64>,
    device: &B::Device,
) -> (Tensor<B, 2, Int>, Tensor<B, 1, Int>) {
    let pieces = (0..BATCH).flat_map(|piece| {
        let text = TEXTS[piece % TEXTS.len()];
        let [first, end] = [part.start, part.end].map(|at| (text.len() as f64 * at) as usize);
        letters(text)[random.random_range(first..end - LENGTH)..][..LENGTH].to_vec()
    });
    let classes = Tensor::arange(0..BATCH as i64, device).remainder_scalar(TEXTS.len() as i64);
    (rows(pieces.collect(), LENGTH, device), classes)
}

/// Trains, and returns the bits of the weights and the part of other pieces that are told right.
fn train<B: AutodiffBackend>(blocks: usize, steps: usize, device: &B::Device) -> (Vec<u32>, f64) {
    B::seed(device, 1);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut network = Classifier::<B>::new(blocks, device);
    let mut optimizer = AdamConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(device);
    let progress = ProgressBar::new(steps as u64);
    for _ in 0..steps {
        let (letters, classes) = pieces::<B>(&mut random, 0.0..0.8, device);
        let gradients = loss.forward(network.forward(letters), classes).backward();
        let gradients = GradientsParams::from_grads(gradients, &network);
        network = optimizer.step(2e-3, network, gradients);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let judged = network.valid();
    let others = (0..10).map(|_| {
        let (letters, classes) = pieces(&mut random, 0.8..1.0, device);
        (judged.forward(letters), classes)
    });
    (weights_bits(&network), accuracy(others))
}

fn run(Options { deeper, steps }: Options) -> Result<(), Error> {
    let device = OvercommitDevice::default();
    let accuracy = train_in_less(&device, 0.25, deeper, |times| {
        train::<Autodiff<Overcommit>>(times * BLOCKS, steps, &device)
    })?;
    println!("{accuracy:.2} of pieces that it has not read are told right.");
    Ok(())
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    run(Options::parse())
}
