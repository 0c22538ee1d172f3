//! OverFeat.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Chain, Classifier, Extent, LayerConfig, Window, convolution};

/// OverFeat's fast model (Sermanet et al., "OverFeat: integrated recognition, localization and detection using
/// convolutional networks", ICLR 2014, table 1), with the paddings of `overfeat.lua` in soumith/convnet-benchmarks, the
/// file that benchmarks of the time ran.
///
/// 145,920,872 parameters for 1000 classes at side 231: the paper's 145 million (unverified), and exactly the figure in the table of
/// models of HewlettPackard/dlcookbook-dlbs.
#[derive(Module, Debug)]
pub struct OverFeat<B: Backend> {
    features: Chain<B>,
    classifier: Classifier<B>,
}

impl<B: Backend> OverFeat<B> {
    /// For images of `channels` and a `side` of at least 71.
    pub fn new(channels: usize, side: usize, classes: usize, device: &B::Device) -> Self {
        let pool = LayerConfig::MaxPool(Window::valid(2).stride(2));
        let layers = [
            convolution(96, Window::valid(11).stride(4)),
            pool.clone(),
            convolution(256, Window::valid(5)),
            pool.clone(),
            convolution(512, Window::same(3)),
            convolution(1024, Window::same(3)),
            convolution(1024, Window::same(3)),
            pool,
        ];
        let (features, extent) = Chain::new(Extent { channels, side }, &layers, device);
        OverFeat { features, classifier: Classifier::new(extent.features(), [3072, 4096], classes, device) }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        self.classifier.forward(self.features.forward(images))
    }
}
