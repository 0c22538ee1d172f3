//! The network of Burn's book on handwritten digits: it learns within a budget, is saved, and a program that only predicts loads it.
//!
//! `cargo run --release --example guide`

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Tensor};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Batch, CLASSES, Digit, Digits, SIDE, shuffled};
use burn_overcommit_examples::{print_table, weights_bits, within};
use indicatif::ProgressBar;

type Bytes = BinBytesRecorder<FullPrecisionSettings>;

const EPOCHS: usize = 8;
const BATCH: usize = 64;
const POOLED_SIDE: usize = 4;
const HIDDEN: usize = 512;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    convolutions: [Conv2d<B>; 2],
    pool: AdaptiveAvgPool2d,
    hidden: Linear<B>,
    head: Linear<B>,
    dropout: Dropout,
    activation: Relu,
}

impl<B: Backend> Network<B> {
    fn new(device: &B::Device) -> Self {
        let convolution = |channels| {
            let config = Conv2dConfig::new(channels, [3, 3]);
            config.with_padding(PaddingConfig2d::Same).init(device)
        };
        Network {
            convolutions: [[1, 8], [8, 16]].map(convolution),
            pool: AdaptiveAvgPool2dConfig::new([POOLED_SIDE, POOLED_SIDE]).init(),
            hidden: LinearConfig::new(16 * POOLED_SIDE * POOLED_SIDE, HIDDEN).init(device),
            head: LinearConfig::new(HIDDEN, CLASSES).init(device),
            dropout: DropoutConfig::new(0.3).init(),
            activation: Relu::new(),
        }
    }

    /// From images `[batch, 1, side, side]` to scores `[batch, classes]`.
    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let convolved = |x, layer: &Conv2d<B>| self.dropout.forward(layer.forward(x));
        let features = self.activation.forward(self.convolutions.iter().fold(images, convolved));
        let features = self.pool.forward(features).flatten(1, 3);
        let hidden = self.activation.forward(self.dropout.forward(self.hidden.forward(features)));
        self.head.forward(hidden)
    }
}

/// Trains, and returns the bits of the weights and the network as it is saved.
fn train<B: AutodiffBackend>(digits: &[Digit], device: &B::Device) -> (Vec<u32>, Vec<u8>) {
    B::seed(device, 1);
    let mut network = Network::<B>::new(device);
    let mut optimizer = AdamConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(device);
    let progress = ProgressBar::new((EPOCHS * (digits.len() / BATCH)) as u64);
    for epoch in 0..EPOCHS {
        for chunk in shuffled(digits, 1, epoch).chunks_exact(BATCH) {
            let Batch { images, labels } = Batch::new(chunk, device);
            let gradients = loss.forward(network.forward(images), labels).backward();
            let gradients = GradientsParams::from_grads(gradients, &network);
            network = optimizer.step(2e-3, network, gradients);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let saved = Bytes::default().record(network.clone().into_record(), ()).expect("it fits memory");
    (weights_bits(&network), saved)
}

/// Draws an image, and says what a saved network takes it for. No gradients are needed for that, so the backend is a plain one.
fn predict<B: Backend>(saved: Vec<u8>, digit: Digit, device: &B::Device) {
    let record = Bytes::default().load(saved, device).expect("it was saved");
    let network = Network::<B>::new(device).load_record(record);
    let Batch { images, labels } = Batch::<B>::new(&[digit], device);
    let drawn = |pixel: &f32| ["  ", "░░", "▒▒", "▓▓", "██"][(pixel * 4.0) as usize];
    for row in images.to_data().to_vec::<f32>().expect("f32").chunks(SIDE) {
        println!("{}", row.iter().map(drawn).collect::<String>());
    }
    let named: i32 = network.forward(images).argmax(1).into_scalar().elem();
    let label: i32 = labels.into_scalar().elem();
    println!("This is a {label}. The network takes it for a {named}.");
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    let train = || train::<Autodiff<Overcommit>>(&digits.train, &device);
    let ((expected, _), unlimited) = within("all memory", &device, None, train)?;
    let budget_bytes = Some(unlimited.peak_bytes() / 2);
    let ((weights, saved), half) = within("half of it", &device, budget_bytes, train)?;
    assert!(weights == expected, "the same bits");
    let predict = || predict::<Overcommit>(saved, digits.held_out[1], &device);
    let ((), prediction) = within("a prediction", &device, budget_bytes, predict)?;
    print_table(&[unlimited, half, prediction]);
    Ok(())
}
