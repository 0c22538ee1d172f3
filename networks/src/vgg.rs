//! VGG, and deeper ones by repetition.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Chain, Classifier, Extent, LayerConfig, Window, convolution};

const CHANNELS: [usize; 5] = [64, 128, 256, 512, 512];

/// VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015): five
/// stages of 3x3 convolutions, a pool after each.
///
/// Column D of table 1, VGG-16, has 138,357,544 parameters for 1000 classes at side 224 (138 million in table 2); column
/// E, VGG-19, 143,667,240 (144 million).
#[derive(Module, Debug)]
pub struct Vgg<B: Backend> {
    features: Chain<B>,
    classifier: Classifier<B>,
}

/// Convolutions in each stage of the VGG with `depth` weight layers, three of them fully connected.
///
/// From 16 to 416 and beyond, as vDNN deepens it (Rhu et al., MICRO 2016, section IV-C, unverified: every 100 layers
/// more are 20 more in each of the five stages): `depth - 16` has to be a multiple of five. 19 is the one that Simonyan and Zisserman gave.
pub fn convolutions(depth: usize) -> Option<[usize; 5]> {
    if depth == 19 {
        return Some([2, 2, 4, 4, 4]);
    }
    let more = depth.checked_sub(16).filter(|more| more % 5 == 0)? / 5;
    Some([2, 2, 3, 3, 3].map(|convolutions| convolutions + more))
}

impl<B: Backend> Vgg<B> {
    /// With so many `convolutions` in each stage, for images of `channels` and a `side` of at least 32.
    pub fn new(
        convolutions: [usize; 5],
        channels: usize,
        side: usize,
        classes: usize,
        device: &B::Device,
    ) -> Self {
        let mut layers = Vec::new();
        for (count, channels) in convolutions.into_iter().zip(CHANNELS) {
            layers.extend((0..count).map(|_| convolution(channels, Window::same(3))));
            layers.push(LayerConfig::MaxPool(Window::valid(2).stride(2)));
        }
        let (features, extent) = Chain::new(Extent { channels, side }, &layers, device);
        Vgg { features, classifier: Classifier::new(extent.features(), [4096, 4096], classes, device) }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        self.classifier.forward(self.features.forward(images))
    }
}
