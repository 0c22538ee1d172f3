//! A small transformer learns to write like this crate's glossary, letter by letter. What attention keeps grows with the square of
//! the sequence, and the budget is a quarter of what it comes to. `--deeper 4` trains four times the blocks in the memory that the
//! network needs without a limit.
//!
//! `cargo run --release --example text_generation [-- --deeper 4]`

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module};
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Int, Tensor};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::letters::{LETTERS, letters, rows};
use burn_overcommit_examples::{Options, train_in_less, weights_bits};
use clap::Parser;
use indicatif::ProgressBar;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TEXT: &str = include_str!("../docs/book/src/glossary.md");
const LENGTH: usize = 96;
const BATCH: usize = 4;
const WIDTH: usize = 64;
const BLOCKS: usize = 2;

#[derive(Module, Debug)]
struct Writer<B: Backend> {
    letters: Embedding<B>,
    places: Embedding<B>,
    blocks: TransformerEncoder<B>,
    head: Linear<B>,
}

impl<B: Backend> Writer<B> {
    fn new(blocks: usize, device: &B::Device) -> Self {
        let blocks = TransformerEncoderConfig::new(WIDTH, 4 * WIDTH, 4, blocks)
            .with_norm_first(true)
            .with_dropout(0.1);
        Writer {
            letters: EmbeddingConfig::new(LETTERS, WIDTH).init(device),
            places: EmbeddingConfig::new(LENGTH, WIDTH).init(device),
            blocks: blocks.init(device),
            head: LinearConfig::new(WIDTH, LETTERS).init(device),
        }
    }

    /// From letters `[batch, length]` to scores of each next one, `[batch, length, letters]`.
    fn forward(&self, letters: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let ([batch, length], device) = (letters.dims(), letters.device());
        let places = Tensor::arange(0..length as i64, &device).reshape([1, length]);
        let x = self.letters.forward(letters) + self.places.forward(places);
        let mask = generate_autoregressive_mask::<B>(batch, length, &device);
        self.head.forward(self.blocks.forward(TransformerEncoderInput::new(x).mask_attn(mask)))
    }
}

/// What the network writes after some text, always the likeliest letter.
fn write<B: Backend>(network: &Writer<B>, start: &str, device: &B::Device) -> String {
    let mut written = letters(start);
    for _ in 0..40 {
        let last = written[written.len().saturating_sub(LENGTH)..].to_vec();
        let length = last.len();
        let scores = network.forward(rows(last, length, device)).slice([0..1, length - 1..length]);
        written.push(scores.argmax(2).into_scalar().elem());
    }
    written.into_iter().map(|letter| letter as u8 as char).collect()
}

/// Trains, and returns the bits of the weights, the last loss and a sample.
fn train<B: AutodiffBackend>(blocks: usize, steps: usize, device: &B::Device) -> (Vec<u32>, (f32, String)) {
    B::seed(device, 1);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let text = letters(TEXT);
    let mut network = Writer::<B>::new(blocks, device);
    let mut optimizer = AdamConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(device);
    let progress = ProgressBar::new(steps as u64);
    let mut last = 0.0;
    for _ in 0..steps {
        let begins: Vec<usize> =
            (0..BATCH).map(|_| random.random_range(0..text.len() - LENGTH - 1)).collect();
        let [read, next] = [0, 1].map(|shift| {
            let pieces = begins.iter().flat_map(|&at| text[at + shift..][..LENGTH].to_vec());
            rows::<B>(pieces.collect(), LENGTH, device)
        });
        let value = loss.forward(network.forward(read).flatten(0, 1), next.flatten(0, 1));
        last = value.clone().into_scalar().elem();
        let gradients = GradientsParams::from_grads(value.backward(), &network);
        network = optimizer.step(2e-3, network, gradients);
        progress.inc(1);
    }
    progress.finish_and_clear();
    (weights_bits(&network), (last, write(&network.valid(), "A **plan** ", device)))
}

fn run(Options { deeper, steps }: Options) -> Result<(), Error> {
    let device = OvercommitDevice::default();
    let (loss, sample) = train_in_less(&device, 0.25, deeper, |times| {
        train::<Autodiff<Overcommit>>(times * BLOCKS, steps, &device)
    })?;
    println!("loss {loss:.2}; it writes: {sample}");
    Ok(())
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    run(Options::parse())
}
