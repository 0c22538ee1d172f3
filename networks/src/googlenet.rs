//! GoogLeNet.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Extent, LayerConfig, Window, convolution, global_average};
use crate::mixed::{BranchConfig, Mixed, branch};

/// Table 1's columns for each inception module, 3a to 5b: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection.
const MODULES: [[usize; 6]; 9] = [
    [64, 96, 128, 16, 32, 32],
    [128, 128, 192, 32, 96, 64],
    [192, 96, 208, 16, 48, 64],
    [160, 112, 224, 24, 64, 64],
    [128, 128, 256, 24, 64, 64],
    [112, 144, 288, 32, 64, 64],
    [256, 160, 320, 32, 128, 128],
    [256, 160, 320, 32, 128, 128],
    [384, 192, 384, 48, 128, 128],
];

/// The modules that a pool follows: 3b and 4e.
const POOLED: [usize; 2] = [1, 6];

/// GoogLeNet (Szegedy et al., "Going deeper with convolutions", CVPR 2015, table 1 and figure 3), without the two
/// auxiliary classifiers, which only training uses, and without batch normalization, which came later.
///
/// 6,998,552 parameters for 1000 classes, as in the table of models of HewlettPackard/dlcookbook-dlbs, which counts BVLC's
/// Caffe model without its auxiliary classifiers.
#[derive(Module, Debug)]
pub struct GoogLeNet<B: Backend> {
    modules: Vec<Mixed<B>>,
    dropout: Dropout,
    head: Linear<B>,
}

impl<B: Backend> GoogLeNet<B> {
    /// For images of `channels` and any `side`; 32 is the smallest that each stride still halves.
    pub fn new(channels: usize, side: usize, classes: usize, device: &B::Device) -> Self {
        let mut modules = vec![stem()];
        for (index, columns) in MODULES.into_iter().enumerate() {
            modules.push(inception(columns));
            if POOLED.contains(&index) {
                modules.push(vec![branch([pool(2)])]);
            }
        }
        let (modules, extent) = Mixed::sequence(Extent { channels, side }, &modules, device);
        GoogLeNet {
            modules,
            dropout: DropoutConfig::new(0.4).init(),
            head: LinearConfig::new(extent.channels, classes).init(device),
        }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let features = self.modules.iter().fold(images, |input, module| module.forward(input));
        self.head.forward(self.dropout.forward(global_average(features)))
    }
}

fn pool(stride: usize) -> LayerConfig {
    LayerConfig::MaxPool(Window::same(3).stride(stride))
}

fn stem() -> Vec<BranchConfig> {
    vec![branch([
        convolution(64, Window::same(7).stride(2)),
        pool(2),
        LayerConfig::LocalResponseNorm,
        convolution(64, Window::same(1)),
        convolution(192, Window::same(3)),
        LayerConfig::LocalResponseNorm,
        pool(2),
    ])]
}

fn inception([single, reduced_3, wide_3, reduced_5, wide_5, projected]: [usize; 6]) -> Vec<BranchConfig> {
    let layer = |channels, size| convolution(channels, Window::same(size));
    vec![
        branch([layer(single, 1)]),
        branch([layer(reduced_3, 1), layer(wide_3, 3)]),
        branch([layer(reduced_5, 1), layer(wide_5, 5)]),
        branch([pool(1), layer(projected, 1)]),
    ]
}
