//! What several of the networks are made of: chains of layers given as data, with their sizes worked out.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AvgPool2d, AvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, LocalResponseNorm,
    LocalResponseNormConfig, PaddingConfig2d,
};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;

/// The size, stride and padding of a convolution's or a pool's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    size: [usize; 2],
    stride: usize,
    padding: [usize; 2],
}

impl Window {
    /// A square window without padding.
    pub(crate) fn valid(size: usize) -> Self {
        Window { size: [size, size], stride: 1, padding: [0, 0] }
    }

    /// A square window of odd size that keeps the image's size at stride 1.
    pub(crate) fn same(size: usize) -> Self {
        Window::rectangle(size, size)
    }

    /// A window of odd height and width that keeps the image's size.
    pub(crate) fn rectangle(height: usize, width: usize) -> Self {
        Window { size: [height, width], stride: 1, padding: [height / 2, width / 2] }
    }

    pub(crate) fn stride(self, stride: usize) -> Self {
        Window { stride, ..self }
    }

    /// The side of what a square image of `side` becomes.
    pub(crate) fn output_side(&self, side: usize) -> usize {
        let steps = (side + 2 * self.padding[0]).checked_sub(self.size[0]);
        steps.unwrap_or_else(|| panic!("an image of side {side} is too small for this network")) / self.stride
            + 1
    }

    fn padding(&self) -> PaddingConfig2d {
        let [height, width] = self.padding;
        PaddingConfig2d::Explicit(height, width, height, width)
    }

    pub(crate) fn convolution(&self, channels: [usize; 2]) -> Conv2dConfig {
        Conv2dConfig::new(channels, self.size)
            .with_stride([self.stride, self.stride])
            .with_padding(self.padding())
    }

    pub(crate) fn max_pool(&self) -> MaxPool2d {
        let strides = [self.stride, self.stride];
        MaxPool2dConfig::new(self.size).with_strides(strides).with_padding(self.padding()).init()
    }

    pub(crate) fn average_pool(&self) -> AvgPool2d {
        let strides = [self.stride, self.stride];
        let pool = AvgPool2dConfig::new(self.size).with_strides(strides).with_padding(self.padding());
        pool.with_count_include_pad(false).init()
    }
}

/// The channels of feature maps and the side of their square images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) channels: usize,
    pub(crate) side: usize,
}

impl Extent {
    /// Features of one sample, flattened.
    pub(crate) fn features(&self) -> usize {
        self.channels * self.side * self.side
    }
}

/// A layer as data.
#[derive(Clone, Debug)]
pub(crate) enum LayerConfig {
    /// A convolution in so many groups, with bias, and a rectifier.
    Convolution {
        channels: usize,
        window: Window,
        groups: usize,
    },
    /// A convolution without bias, batch normalization, a rectifier.
    Normalized {
        channels: usize,
        window: Window,
    },
    LocalResponseNorm,
    MaxPool(Window),
    AveragePool(Window),
}

/// A convolution with bias and a rectifier.
pub(crate) fn convolution(channels: usize, window: Window) -> LayerConfig {
    LayerConfig::Convolution { channels, window, groups: 1 }
}

/// A convolution without bias, batch normalization, a rectifier.
pub(crate) fn normalized(channels: usize, window: Window) -> LayerConfig {
    LayerConfig::Normalized { channels, window }
}

impl LayerConfig {
    fn init<B: Backend>(&self, input: Extent, device: &B::Device) -> Layer<B> {
        match self {
            LayerConfig::Convolution { channels, window, groups } => Layer::Convolution(
                window.convolution([input.channels, *channels]).with_groups(*groups).init(device),
            ),
            LayerConfig::Normalized { channels, window } => {
                Layer::Normalized(Normalized::new([input.channels, *channels], window, device))
            }
            // Krizhevsky 2012, section 3.3: k 2, n 5, alpha 1e-4, beta 0.75, over the window's sum; Burn divides alpha
            // by n.
            LayerConfig::LocalResponseNorm => Layer::LocalResponseNorm(
                LocalResponseNormConfig::new(5).with_alpha(5e-4).with_beta(0.75).with_k(2.0).init(),
            ),
            LayerConfig::MaxPool(window) => Layer::MaxPool(window.max_pool()),
            LayerConfig::AveragePool(window) => Layer::AveragePool(window.average_pool()),
        }
    }

    fn output(&self, input: Extent) -> Extent {
        match self {
            LayerConfig::Convolution { channels, window, .. }
            | LayerConfig::Normalized { channels, window } => {
                Extent { channels: *channels, side: window.output_side(input.side) }
            }
            LayerConfig::LocalResponseNorm => input,
            LayerConfig::MaxPool(window) | LayerConfig::AveragePool(window) => {
                Extent { side: window.output_side(input.side), ..input }
            }
        }
    }
}

#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "pools are few beside convolutions")]
enum Layer<B: Backend> {
    Convolution(Conv2d<B>),
    Normalized(Normalized<B>),
    LocalResponseNorm(LocalResponseNorm),
    MaxPool(MaxPool2d),
    AveragePool(AvgPool2d),
}

impl<B: Backend> Layer<B> {
    fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        match self {
            Layer::Convolution(layer) => relu(layer.forward(input)),
            Layer::Normalized(layer) => relu(layer.forward(input)),
            Layer::LocalResponseNorm(layer) => layer.forward(input),
            Layer::MaxPool(layer) => layer.forward(input),
            Layer::AveragePool(layer) => layer.forward(input),
        }
    }
}

/// One layer after another.
#[derive(Module, Debug)]
pub(crate) struct Chain<B: Backend> {
    layers: Vec<Layer<B>>,
}

impl<B: Backend> Chain<B> {
    /// The chain, and the extent of what it makes of `input`.
    pub(crate) fn new(input: Extent, layers: &[LayerConfig], device: &B::Device) -> (Self, Extent) {
        let mut extent = input;
        let init = |layer: &LayerConfig| {
            let built = layer.init(extent, device);
            extent = layer.output(extent);
            built
        };
        let layers = layers.iter().map(init).collect();
        (Chain { layers }, extent)
    }

    /// From `[batch, channels, side, side]` to the same of the chain's extent.
    pub(crate) fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        self.layers.iter().fold(input, |input, layer| layer.forward(input))
    }
}

/// A convolution without bias (the normalization subtracts it) and its batch normalization.
#[derive(Module, Debug)]
pub(crate) struct Normalized<B: Backend> {
    convolution: Conv2d<B>,
    norm: BatchNorm<B>,
}

impl<B: Backend> Normalized<B> {
    pub(crate) fn new(channels: [usize; 2], window: &Window, device: &B::Device) -> Self {
        Normalized {
            convolution: window.convolution(channels).with_bias(false).init(device),
            norm: BatchNormConfig::new(channels[1]).init(device),
        }
    }

    pub(crate) fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        self.norm.forward(self.convolution.forward(input))
    }
}

/// Fully connected layers with rectifiers and dropout between, from flattened features to class scores.
#[derive(Module, Debug)]
pub(crate) struct Classifier<B: Backend> {
    hidden: Vec<Linear<B>>,
    dropout: Dropout,
    output: Linear<B>,
}

impl<B: Backend> Classifier<B> {
    pub(crate) fn new(features: usize, hidden: [usize; 2], classes: usize, device: &B::Device) -> Self {
        let [first, second] = hidden;
        Classifier {
            hidden: vec![
                LinearConfig::new(features, first).init(device),
                LinearConfig::new(first, second).init(device),
            ],
            dropout: DropoutConfig::new(0.5).init(),
            output: LinearConfig::new(second, classes).init(device),
        }
    }

    /// From `[batch, channels, side, side]` to `[batch, classes]`.
    pub(crate) fn forward(&self, features: Tensor<B, 4>) -> Tensor<B, 2> {
        let hidden =
            |input: Tensor<B, 2>, layer: &Linear<B>| self.dropout.forward(relu(layer.forward(input)));
        self.output.forward(self.hidden.iter().fold(features.flatten(1, 3), hidden))
    }
}

/// From `[batch, channels, side, side]` to each channel's mean, `[batch, channels]`.
pub(crate) fn global_average<B: Backend>(features: Tensor<B, 4>) -> Tensor<B, 2> {
    features.flatten::<3>(2, 3).mean_dim(2).squeeze_dim(2)
}
