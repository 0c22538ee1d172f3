//! Network in Network.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Chain, Extent, LayerConfig, Window, convolution, global_average};

/// Network in Network (Lin, Chen and Yan, "Network in network", ICLR 2014): convolutions each followed by two of size one,
/// and the mean of a map for each class. The sizes are those of the model for ImageNet that its authors gave to Caffe's
/// model zoo (unverified): 7,595,176 parameters for 1000 classes.
#[derive(Module, Debug)]
pub struct NetworkInNetwork<B: Backend> {
    features: Chain<B>,
    dropout: Dropout,
    maps: Chain<B>,
}

impl<B: Backend> NetworkInNetwork<B> {
    /// For images of `channels` and a `side` of at least 51.
    pub fn new(channels: usize, side: usize, classes: usize, device: &B::Device) -> Self {
        let pool = LayerConfig::MaxPool(Window::valid(3).stride(2));
        let single = |channels| convolution(channels, Window::same(1));
        let layers = [
            convolution(96, Window::valid(11).stride(4)),
            single(96),
            single(96),
            pool.clone(),
            convolution(256, Window::same(5)),
            single(256),
            single(256),
            pool.clone(),
            convolution(384, Window::same(3)),
            single(384),
            single(384),
            pool,
        ];
        let (features, extent) = Chain::new(Extent { channels, side }, &layers, device);
        let maps = [convolution(1024, Window::same(3)), single(1024), single(classes)];
        let (maps, _) = Chain::new(extent, &maps, device);
        NetworkInNetwork { features, dropout: DropoutConfig::new(0.5).init(), maps }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let features = self.dropout.forward(self.features.forward(images));
        global_average(self.maps.forward(features))
    }
}
