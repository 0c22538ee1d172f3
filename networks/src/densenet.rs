//! Densely connected networks.

use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::pool::{AvgPool2d, MaxPool2d};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;

use crate::layers::{Normalized, Window, global_average};

/// Which blocks a densely connected network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseNetConfig {
    /// Layers in each of the four dense blocks.
    pub layers: [usize; 4],
    /// Channels that each layer adds; 32 in table 1.
    pub growth: usize,
}

impl DenseNetConfig {
    /// The ImageNet networks of 121, 169 and 201 layers (table 1).
    pub fn published(depth: usize) -> Option<Self> {
        let layers = match depth {
            121 => [6, 12, 24, 16],
            169 => [6, 12, 32, 32],
            201 => [6, 12, 48, 32],
            _ => return None,
        };
        Some(DenseNetConfig { layers, growth: 32 })
    }
}

/// DenseNet-BC for images (Huang, Liu, van der Maaten and Weinberger, "Densely connected convolutional networks", CVPR
/// 2017, table 1): bottlenecks of four times the growth, compression 0.5.
///
/// Parameters for 1000 classes: 7,978,856 (121 layers), 14,149,480 (169) and 20,013,928 (201), as torchvision documents
/// them. Each layer reads the concatenation of all before it in its block, which is made anew for every layer: memory is
/// quadratic in a block's depth, and that is what this network is here for.
#[derive(Module, Debug)]
pub struct DenseNet<B: Backend> {
    stem: Normalized<B>,
    pool: MaxPool2d,
    blocks: Vec<Block<B>>,
    norm: BatchNorm<B>,
    head: Linear<B>,
}

impl<B: Backend> DenseNet<B> {
    /// For images of `channels` and a `side` of at least 32.
    pub fn new(config: &DenseNetConfig, channels: usize, classes: usize, device: &B::Device) -> Self {
        let growth = config.growth;
        let mut width = 2 * growth;
        let stem = Normalized::new([channels, width], &Window::same(7).stride(2), device);
        let mut blocks = Vec::new();
        for (index, count) in config.layers.into_iter().enumerate() {
            let layer = |index| Layer::new(width + index * growth, growth, device);
            let layers = (0..count).map(layer).collect();
            width += count * growth;
            let last = index + 1 == config.layers.len();
            blocks.push(Block { layers, transition: (!last).then(|| Transition::new(width, device)) });
            width /= if last { 1 } else { 2 };
        }
        DenseNet {
            stem,
            pool: Window::same(3).stride(2).max_pool(),
            blocks,
            norm: BatchNormConfig::new(width).init(device),
            head: LinearConfig::new(width, classes).init(device),
        }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let stem = self.pool.forward(relu(self.stem.forward(images)));
        let features = self.blocks.iter().fold(stem, |input, block| block.forward(input));
        self.head.forward(global_average(relu(self.norm.forward(features))))
    }
}

#[derive(Module, Debug)]
struct Block<B: Backend> {
    layers: Vec<Layer<B>>,
    transition: Option<Transition<B>>,
}

impl<B: Backend> Block<B> {
    fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        let grow = |features: Tensor<B, 4>, layer: &Layer<B>| {
            let more = layer.forward(features.clone());
            Tensor::cat(vec![features, more], 1)
        };
        let features = self.layers.iter().fold(input, grow);
        match &self.transition {
            Some(transition) => transition.forward(features),
            None => features,
        }
    }
}

/// Normalize, rectify, convolve 1x1 to four times the growth; normalize, rectify, convolve 3x3 to the growth.
#[derive(Module, Debug)]
struct Layer<B: Backend> {
    norm: BatchNorm<B>,
    bottleneck: Normalized<B>,
    convolution: Conv2d<B>,
}

impl<B: Backend> Layer<B> {
    fn new(channels: usize, growth: usize, device: &B::Device) -> Self {
        let width = 4 * growth;
        Layer {
            norm: BatchNormConfig::new(channels).init(device),
            bottleneck: Normalized::new([channels, width], &Window::same(1), device),
            convolution: Window::same(3).convolution([width, growth]).with_bias(false).init(device),
        }
    }

    fn forward(&self, features: Tensor<B, 4>) -> Tensor<B, 4> {
        let narrow = self.bottleneck.forward(relu(self.norm.forward(features)));
        self.convolution.forward(relu(narrow))
    }
}

/// Normalize, rectify, convolve 1x1 to half the channels, halve the image.
#[derive(Module, Debug)]
struct Transition<B: Backend> {
    norm: BatchNorm<B>,
    convolution: Conv2d<B>,
    pool: AvgPool2d,
}

impl<B: Backend> Transition<B> {
    fn new(channels: usize, device: &B::Device) -> Self {
        Transition {
            norm: BatchNormConfig::new(channels).init(device),
            convolution: Window::same(1).convolution([channels, channels / 2]).with_bias(false).init(device),
            pool: Window::valid(2).stride(2).average_pool(),
        }
    }

    fn forward(&self, features: Tensor<B, 4>) -> Tensor<B, 4> {
        self.pool.forward(self.convolution.forward(relu(self.norm.forward(features))))
    }
}
