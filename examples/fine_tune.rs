//! A saved network learns something else: its record is loaded, all layers but the last two are frozen, and these learn to tell odd
//! digits from even ones.
//!
//! `cargo run --release --example fine_tune`

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, activation};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Batch, CLASSES, Digits, SIDE, shuffled};
use burn_overcommit_examples::{accuracy, print_table, weights_bits, within};
use indicatif::ProgressBar;

type Bytes = BinBytesRecorder<FullPrecisionSettings>;

const BATCH: usize = 128;
const WIDTH: usize = 256;
const LAYERS: usize = 8;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    stem: Linear<B>,
    norms: Vec<LayerNorm<B>>,
    layers: Vec<Linear<B>>,
    head: Linear<B>,
}

impl<B: Backend> Network<B> {
    fn new(device: &B::Device) -> Self {
        Network {
            stem: LinearConfig::new(SIDE * SIDE, WIDTH).init(device),
            norms: (0..LAYERS).map(|_| LayerNormConfig::new(WIDTH).init(device)).collect(),
            layers: (0..LAYERS).map(|_| LinearConfig::new(WIDTH, WIDTH).init(device)).collect(),
            head: LinearConfig::new(WIDTH, CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let stem = self.stem.forward(images.flatten(1, 3));
        let residual = |x: Tensor<B, 2>, (norm, layer): (&LayerNorm<B>, &Linear<B>)| {
            x.clone() + activation::gelu(layer.forward(norm.forward(x)))
        };
        self.head.forward(self.norms.iter().zip(&self.layers).fold(stem, residual))
    }

    /// Leaves only the last layer and the head to be trained.
    fn frozen(mut self) -> Self {
        let last = self.layers.pop().expect("there are layers");
        self.stem = self.stem.no_grad();
        self.norms = self.norms.into_iter().map(Module::no_grad).collect();
        self.layers = self.layers.into_iter().map(Module::no_grad).chain([last]).collect();
        self
    }
}

/// Trains for some epochs. `class` says what is to be told of a digit.
fn train<B: AutodiffBackend>(
    mut network: Network<B>,
    digits: &Digits,
    epochs: usize,
    class: impl Fn(Tensor<B, 1, Int>) -> Tensor<B, 1, Int>,
) -> (Network<B>, f64) {
    let device = network.devices().remove(0);
    let loss = CrossEntropyLossConfig::new().init(&device);
    let mut optimizer = AdamConfig::new().init();
    let progress = ProgressBar::new((epochs * (digits.train.len() / BATCH)) as u64);
    for epoch in 0..epochs {
        for chunk in shuffled(&digits.train, 1, epoch).chunks_exact(BATCH) {
            let Batch { images, labels } = Batch::new(chunk, &device);
            let gradients = loss.forward(network.forward(images), class(labels)).backward();
            let gradients = GradientsParams::from_grads(gradients, &network);
            network = optimizer.step(1e-3, network, gradients);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let Batch { images, labels } = Batch::new(&digits.held_out, &device);
    let accuracy = accuracy([(network.valid().forward(images.inner()), class(labels).inner())]);
    (network, accuracy)
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    type B = Autodiff<Overcommit>;
    let device = OvercommitDevice::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    let pretrained = || {
        B::seed(&device, 1);
        let (network, accuracy) = train(Network::<B>::new(&device), &digits, 5, |labels| labels);
        println!("{accuracy:.3} of the held-out digits are named correctly");
        Bytes::default().record(network.into_record(), ()).expect("it fits memory")
    };
    let (saved, first) = within("from the beginning", &device, None, pretrained)?;
    let tuned = || {
        let record = Bytes::default().load(saved.clone(), &device).expect("it was saved above");
        let network = Network::<B>::new(&device).load_record(record).frozen();
        let (network, accuracy) = train(network, &digits, 2, |labels| labels.remainder_scalar(2));
        (weights_bits(&network), accuracy)
    };
    let ((weights, accuracy), second) = within("tuned", &device, None, tuned)?;
    let budget_bytes = second.peak_bytes() / 2;
    let ((in_half, _), third) = within("tuned in half", &device, Some(budget_bytes), tuned)?;
    assert!(weights == in_half, "the same bits");
    print_table(&[first, second, third]);
    println!("{accuracy:.3} of them are told to be odd or even.");
    Ok(())
}
