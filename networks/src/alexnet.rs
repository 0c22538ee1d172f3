//! AlexNet.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Chain, Classifier, Extent, LayerConfig, Window, convolution};

/// AlexNet as published, in two groups (Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep
/// convolutional neural networks", NIPS 2012, section 3.5 and figure 2).
///
/// 60,965,224 parameters for 1000 classes: the paper's 60 million, and Caffe's reference model exactly. (torchvision's
/// `alexnet` is the ungrouped variant of 2014, with 61,100,840.) The paper's layers fit together for images of side 227,
/// not the 224 that it states. Local response normalization is where the paper has it: before the pool.
#[derive(Module, Debug)]
pub struct AlexNet<B: Backend> {
    features: Chain<B>,
    classifier: Classifier<B>,
}

impl<B: Backend> AlexNet<B> {
    /// For images of `channels` and a `side` of at least 67.
    pub fn new(channels: usize, side: usize, classes: usize, device: &B::Device) -> Self {
        let halves = |channels, window| LayerConfig::Convolution { channels, window, groups: 2 };
        let pool = LayerConfig::MaxPool(Window::valid(3).stride(2));
        let layers = [
            convolution(96, Window::valid(11).stride(4)),
            LayerConfig::LocalResponseNorm,
            pool.clone(),
            halves(256, Window::same(5)),
            LayerConfig::LocalResponseNorm,
            pool.clone(),
            convolution(384, Window::same(3)),
            halves(384, Window::same(3)),
            halves(256, Window::same(3)),
            pool,
        ];
        let (features, extent) = Chain::new(Extent { channels, side }, &layers, device);
        AlexNet { features, classifier: Classifier::new(extent.features(), [4096, 4096], classes, device) }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        self.classifier.forward(self.features.forward(images))
    }
}
