//! U-Net.

use burn::module::Module;
use burn::nn::conv::{Conv2d, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::pool::MaxPool2d;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;

use crate::layers::Window;

/// Times that the image is halved on the way down.
const HALVINGS: usize = 4;

/// U-Net as published (Ronneberger, Fischer and Brox, "U-Net: convolutional networks for biomedical image segmentation",
/// MICCAI 2015, section 2 and figure 1): convolutions without padding, no batch normalization, dropout at the end of the
/// way down.
///
/// 31,030,658 parameters for images of one channel, two classes and width 64. The paper states no count; this is the one
/// that Keras prints for transcriptions of figure 1, and that tf_unet's authors' settings have.
#[derive(Module, Debug)]
pub struct UNet<B: Backend> {
    down: Vec<Pair<B>>,
    pool: MaxPool2d,
    bottom: Pair<B>,
    dropout: Dropout,
    up: Vec<Up<B>>,
    head: Conv2d<B>,
}

impl<B: Backend> UNet<B> {
    /// For images of `channels`; `width` is the channels of the first convolution, 64 in the paper.
    pub fn new(width: usize, channels: usize, classes: usize, device: &B::Device) -> Self {
        let level = |index: usize| width << index;
        let down = |index: usize| {
            Pair::new(if index == 0 { channels } else { level(index - 1) }, level(index), device)
        };
        UNet {
            down: (0..HALVINGS).map(down).collect(),
            pool: Window::valid(2).stride(2).max_pool(),
            bottom: Pair::new(level(HALVINGS - 1), level(HALVINGS), device),
            dropout: DropoutConfig::new(0.5).init(),
            up: (0..HALVINGS).rev().map(|index| Up::new(level(index), device)).collect(),
            head: Window::valid(1).convolution([width, classes]).init(device),
        }
    }

    /// From images `[batch, channels, side, side]` to scores of each pixel of the middle, `[batch, classes, side - 184,
    /// side - 184]`. `side` is 188 or more, a multiple of 16 more: 572 in the paper, which makes 388.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 4> {
        let mut features = images;
        let mut skipped = Vec::new();
        for pair in &self.down {
            let level = pair.forward(features);
            features = self.pool.forward(level.clone());
            skipped.push(level);
        }
        features = self.dropout.forward(self.bottom.forward(features));
        for (up, level) in self.up.iter().zip(skipped.into_iter().rev()) {
            features = up.forward(features, level);
        }
        self.head.forward(features)
    }
}

/// The side of the scores that [`UNet`] makes of images of `side`.
pub(crate) fn output_side(side: usize) -> usize {
    assert!(side >= 188 && side % 16 == 12, "U-Net takes images of side 188, 204, 220, ...; not {side}");
    side - 184
}

/// Two 3x3 convolutions without padding, each with a rectifier.
#[derive(Module, Debug)]
struct Pair<B: Backend> {
    first: Conv2d<B>,
    second: Conv2d<B>,
}

impl<B: Backend> Pair<B> {
    fn new(channels_in: usize, channels: usize, device: &B::Device) -> Self {
        Pair {
            first: Window::valid(3).convolution([channels_in, channels]).init(device),
            second: Window::valid(3).convolution([channels, channels]).init(device),
        }
    }

    fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        relu(self.second.forward(relu(self.first.forward(input))))
    }
}

/// A transposed convolution that doubles the side, and a pair over it and the middle of the level that was skipped.
#[derive(Module, Debug)]
struct Up<B: Backend> {
    double: ConvTranspose2d<B>,
    pair: Pair<B>,
}

impl<B: Backend> Up<B> {
    fn new(channels: usize, device: &B::Device) -> Self {
        Up {
            double: ConvTranspose2dConfig::new([2 * channels, channels], [2, 2])
                .with_stride([2, 2])
                .init(device),
            pair: Pair::new(2 * channels, channels, device),
        }
    }

    fn forward(&self, features: Tensor<B, 4>, level: Tensor<B, 4>) -> Tensor<B, 4> {
        let doubled = self.double.forward(features);
        let [_, _, side, _] = doubled.dims();
        let margin = (level.dims()[2] - side) / 2;
        let middle = level.narrow(2, margin, side).narrow(3, margin, side);
        self.pair.forward(Tensor::cat(vec![middle, doubled], 1))
    }
}
