//! The network: Burn's own modules and nothing else, over whatever backend it is given.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d, Relu,
};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::data::{CLASSES, SIDE};

/// Channels of every convolution: wide enough to learn the digits, so narrow that the activations (which
/// grow with the batch) and not the weights (which do not) are what fills the memory.
const CHANNELS: usize = 16;
const DROPOUT: f64 = 0.2;
const POOLED_SIDE: usize = SIDE / 2;

/// A residual convolutional classifier: a stem, `depth` blocks of one shape, and a linear head.
#[derive(Module, Debug)]
pub struct Network<B: Backend> {
    stem: Normalized<B>,
    blocks: Vec<Block<B>>,
    pool: MaxPool2d,
    dropout: Dropout,
    head: Linear<B>,
    relu: Relu,
}

impl<B: Backend> Network<B> {
    /// A network of `depth` blocks with weights drawn from the backend's random numbers.
    pub fn new(depth: usize, device: &B::Device) -> Self {
        let pool = MaxPool2dConfig::new([2, 2]).with_strides([2, 2]);
        let features = CHANNELS * POOLED_SIDE * POOLED_SIDE;
        Network {
            stem: Normalized::new(1, device),
            blocks: (0..depth).map(|_| Block::new(device)).collect(),
            pool: pool.init(),
            dropout: DropoutConfig::new(DROPOUT).init(),
            head: LinearConfig::new(features, CLASSES).init(device),
            relu: Relu::new(),
        }
    }

    /// From images `[batch, 1, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let stem = self.relu.forward(self.stem.forward(images));
        let features = self.blocks.iter().fold(stem, |input, block| block.forward(input));
        let features = self.pool.forward(features).flatten(1, 3);
        self.head.forward(self.dropout.forward(features))
    }
}

/// `relu(input + second(relu(first(input))))`.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    first: Normalized<B>,
    second: Normalized<B>,
    relu: Relu,
}

impl<B: Backend> Block<B> {
    fn new(device: &B::Device) -> Self {
        Block {
            first: Normalized::new(CHANNELS, device),
            second: Normalized::new(CHANNELS, device),
            relu: Relu::new(),
        }
    }

    fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        let inner = self.relu.forward(self.first.forward(input.clone()));
        self.relu.forward(input + self.second.forward(inner))
    }
}

/// A 3x3 convolution that keeps the image's size, and its batch normalization.
#[derive(Module, Debug)]
struct Normalized<B: Backend> {
    convolution: Conv2d<B>,
    norm: BatchNorm<B>,
}

impl<B: Backend> Normalized<B> {
    fn new(channels_in: usize, device: &B::Device) -> Self {
        // The normalization subtracts the mean, and with it any bias of the convolution.
        let convolution = Conv2dConfig::new([channels_in, CHANNELS], [3, 3])
            .with_padding(PaddingConfig2d::Same)
            .with_bias(false);
        Normalized {
            convolution: convolution.init(device),
            norm: BatchNormConfig::new(CHANNELS).init(device),
        }
    }

    fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        self.norm.forward(self.convolution.forward(input))
    }
}
