//! Three small networks, and what training leaves of them. No test uses all of it.

#![allow(dead_code)]

use std::sync::Mutex;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, Lstm, LstmConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor, activation};

/// A network and its loss on a batch that a seed gives.
pub trait Network: Module + Clone {
    fn new(device: &Device) -> Self;
    fn loss(&self, batch: Batch) -> Tensor<1>;
}

/// Numbers, and a class for each of them.
pub struct Batch {
    pub numbers: Tensor<3>,
    pub classes: Tensor<1, Int>,
}

impl Batch {
    /// Made on Burn's own device, so that every device gets the same.
    fn made(step: usize, device: &Device) -> Self {
        let host = Device::flex();
        let _random = RANDOM.lock().unwrap();
        host.seed(step as u64);
        let numbers = Tensor::<3>::random([8, 24, 32], Distribution::Normal(0.0, 1.0), &host);
        let classes = Tensor::<1, Int>::random([8], Distribution::Uniform(0.0, 10.0), &host);
        Batch {
            numbers: Tensor::from_data(numbers.into_data(), device),
            classes: Tensor::from_data(classes.into_data(), device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Convolutions {
    layers: Vec<Conv2d>,
    norms: Vec<BatchNorm>,
    pool: MaxPool2d,
    last: Linear,
}

impl Network for Convolutions {
    fn new(device: &Device) -> Self {
        let conv = |channels| {
            Conv2dConfig::new(channels, [3, 3]).with_padding(burn::nn::PaddingConfig2d::Same).init(device)
        };
        Convolutions {
            layers: (0..12).map(|layer| conv([if layer == 0 { 1 } else { 16 }, 16])).collect(),
            norms: (0..12).map(|_| BatchNormConfig::new(16).init(device)).collect(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            last: LinearConfig::new(16 * 12 * 16, 10).init(device),
        }
    }

    fn loss(&self, batch: Batch) -> Tensor<1> {
        let mut x = batch.numbers.unsqueeze_dim::<4>(1);
        for (layer, norm) in self.layers.iter().zip(&self.norms) {
            x = activation::relu(norm.forward(layer.forward(x)));
        }
        let logits = self.last.forward(self.pool.forward(x).flatten::<2>(1, 3));
        CrossEntropyLossConfig::new().init(&logits.device()).forward(logits, batch.classes)
    }
}

#[derive(Module, Debug)]
pub struct Recurrent {
    lstm: Lstm,
    last: Linear,
}

impl Network for Recurrent {
    fn new(device: &Device) -> Self {
        Recurrent {
            lstm: LstmConfig::new(32, 64, true).init(device),
            last: LinearConfig::new(64, 32).init(device),
        }
    }

    fn loss(&self, batch: Batch) -> Tensor<1> {
        let (states, _) = self.lstm.forward(batch.numbers.clone(), None);
        MseLoss::new().forward(self.last.forward(states), batch.numbers, Reduction::Mean)
    }
}

#[derive(Module, Debug)]
pub struct Transformer {
    encoder: TransformerEncoder,
    last: Linear,
}

impl Network for Transformer {
    fn new(device: &Device) -> Self {
        Transformer {
            encoder: TransformerEncoderConfig::new(32, 128, 4, 4).with_dropout(0.0).init(device),
            last: LinearConfig::new(32, 10).init(device),
        }
    }

    fn loss(&self, batch: Batch) -> Tensor<1> {
        let encoded = self.encoder.forward(TransformerEncoderInput::new(batch.numbers));
        let logits = self.last.forward(encoded.mean_dim(1).squeeze_dim::<2>(1));
        CrossEntropyLossConfig::new().init(&logits.device()).forward(logits, batch.classes)
    }
}

/// What training leaves: the losses, and all weights.
#[derive(Debug, PartialEq)]
pub struct Trained {
    pub losses: Vec<f32>,
    pub weights: Vec<f32>,
}

impl Trained {
    pub fn bits(&self) -> Vec<u32> {
        self.losses.iter().chain(&self.weights).map(|number| number.to_bits()).collect()
    }

    /// The greatest difference of two losses, as a part of the loss.
    pub fn apart(&self, other: &Trained) -> f32 {
        let pairs = self.losses.iter().zip(&other.losses);
        pairs.map(|(a, b)| (a - b).abs() / b).fold(0.0, f32::max)
    }
}

/// Burn's own device has one stream of random numbers for all threads.
static RANDOM: Mutex<()> = Mutex::new(());

/// A network whose weights are made on Burn's own device, as they are first looked at.
fn first<N: Network>(device: &Device) -> N {
    let host = Device::flex().autodiff();
    let _random = RANDOM.lock().unwrap();
    host.seed(7);
    let network = N::new(&host);
    network.visit(&mut Weights::default());
    network.fork(device)
}

/// Trains by Adam.
pub fn train<N: Network>(device: &Device, steps: usize) -> Trained {
    let mut network = first::<N>(device);
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for step in 0..steps {
        let loss = network.loss(Batch::made(step, device));
        losses.push(loss.clone().into_scalar::<f32>());
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(3e-4, network, gradients);
    }
    let mut weights = Weights::default();
    network.visit(&mut weights);
    Trained { losses, weights: weights.0 }
}

#[derive(Default)]
struct Weights(Vec<f32>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().into_data().try_to_vec::<f32>().expect("weights are floats of 32 bits"));
    }
}
