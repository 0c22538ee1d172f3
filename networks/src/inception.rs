//! Inception-v4.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Extent, LayerConfig, Window, global_average, normalized};
use crate::mixed::{BranchConfig, Mixed, branch};

/// Inception-v4 (Szegedy, Ioffe, Vanhoucke and Alemi, "Inception-v4, Inception-ResNet and the impact of residual
/// connections on learning", AAAI 2017, figures 3 to 9), every convolution with batch normalization and without bias.
///
/// 42,679,816 parameters for 1000 classes, as in pytorchcv's test of its `inceptionv4` and in KerasHub's presets; timm
/// gives 42.7 million. The order of the 1x7 and 7x1 convolutions is that of those implementations (the authors' TensorFlow
/// code); the figures differ from it in places, not in any size.
#[derive(Module, Debug)]
pub struct InceptionV4<B: Backend> {
    modules: Vec<Mixed<B>>,
    dropout: Dropout,
    head: Linear<B>,
}

impl<B: Backend> InceptionV4<B> {
    /// For images of `channels` and a `side` of at least 75.
    pub fn new(channels: usize, side: usize, classes: usize, device: &B::Device) -> Self {
        let mut modules = stem();
        modules.extend(vec![inception_a(); 4]);
        modules.push(reduction_a());
        modules.extend(vec![inception_b(); 7]);
        modules.push(reduction_b());
        modules.extend(vec![inception_c(); 3]);
        let (modules, extent) = Mixed::sequence(Extent { channels, side }, &modules, device);
        InceptionV4 {
            modules,
            dropout: DropoutConfig::new(0.2).init(),
            head: LinearConfig::new(extent.channels, classes).init(device),
        }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let features = self.modules.iter().fold(images, |input, module| module.forward(input));
        self.head.forward(self.dropout.forward(global_average(features)))
    }
}

fn same(channels: usize, height: usize, width: usize) -> LayerConfig {
    normalized(channels, Window::rectangle(height, width))
}

fn single(channels: usize) -> LayerConfig {
    same(channels, 1, 1)
}

/// A 3x3 convolution without padding.
fn valid(channels: usize, stride: usize) -> LayerConfig {
    normalized(channels, Window::valid(3).stride(stride))
}

fn halving_pool() -> LayerConfig {
    LayerConfig::MaxPool(Window::valid(3).stride(2))
}

fn average_pool() -> LayerConfig {
    LayerConfig::AveragePool(Window::same(3))
}

/// Figure 3.
fn stem() -> Vec<Vec<BranchConfig>> {
    vec![
        vec![branch([valid(32, 2), valid(32, 1), same(64, 3, 3)])],
        vec![branch([halving_pool()]), branch([valid(96, 2)])],
        vec![
            branch([single(64), valid(96, 1)]),
            branch([single(64), same(64, 1, 7), same(64, 7, 1), valid(96, 1)]),
        ],
        vec![branch([valid(192, 2)]), branch([halving_pool()])],
    ]
}

/// Figure 4.
fn inception_a() -> Vec<BranchConfig> {
    vec![
        branch([single(96)]),
        branch([single(64), same(96, 3, 3)]),
        branch([single(64), same(96, 3, 3), same(96, 3, 3)]),
        branch([average_pool(), single(96)]),
    ]
}

/// Figure 7, with table 1's k, l, m, n for Inception-v4.
fn reduction_a() -> Vec<BranchConfig> {
    vec![
        branch([valid(384, 2)]),
        branch([single(192), same(224, 3, 3), valid(256, 2)]),
        branch([halving_pool()]),
    ]
}

/// Figure 5.
fn inception_b() -> Vec<BranchConfig> {
    vec![
        branch([single(384)]),
        branch([single(192), same(224, 1, 7), same(256, 7, 1)]),
        branch([single(192), same(192, 7, 1), same(224, 1, 7), same(224, 7, 1), same(256, 1, 7)]),
        branch([average_pool(), single(128)]),
    ]
}

/// Figure 8.
fn reduction_b() -> Vec<BranchConfig> {
    vec![
        branch([single(192), valid(192, 2)]),
        branch([single(256), same(256, 1, 7), same(320, 7, 1), valid(320, 2)]),
        branch([halving_pool()]),
    ]
}

/// Figure 6.
fn inception_c() -> Vec<BranchConfig> {
    let ends = [same(256, 1, 3), same(256, 3, 1)];
    vec![
        branch([single(256)]),
        branch([single(384)]).split(ends.clone()),
        branch([single(384), same(448, 3, 1), same(512, 1, 3)]).split(ends),
        branch([average_pool(), single(256)]),
    ]
}
