//! Residual networks of any depth.

use burn::module::Module;
use burn::nn::pool::MaxPool2d;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;

use crate::layers::{Normalized, Window, global_average};

/// The convolutions of one residual block (He et al. 2016, figure 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// Two 3x3 convolutions.
    Basic,
    /// A 1x1 convolution to a quarter of the channels, a 3x3 and a 1x1 back.
    Bottleneck,
}

/// Which blocks a residual network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResNetConfig {
    /// The convolutions of each block.
    pub residual: Residual,
    /// Blocks in each of the four stages.
    pub blocks: [usize; 4],
    /// Channels of the stem and of the first stage's 3x3 convolutions; 64 in the papers. Each stage doubles it.
    pub width: usize,
}

impl ResNetConfig {
    /// The ImageNet networks of 18, 34, 50, 101 and 152 layers (He et al. 2016, table 1).
    pub fn published(depth: usize) -> Option<Self> {
        let (residual, blocks) = match depth {
            18 => (Residual::Basic, [2, 2, 2, 2]),
            34 => (Residual::Basic, [3, 4, 6, 3]),
            50 => (Residual::Bottleneck, [3, 4, 6, 3]),
            101 => (Residual::Bottleneck, [3, 4, 23, 3]),
            152 => (Residual::Bottleneck, [3, 8, 36, 3]),
            _ => return None,
        };
        Some(ResNetConfig { residual, blocks, width: 64 })
    }

    /// The deepest network of at most `depth` layers by the rule of SuperNeurons (Wang et al., PPoPP 2018, section 4,
    /// unverified there): 6, 32 and 6 bottleneck blocks in the stages but the third, which has the rest of
    /// `depth = 3 (n1 + n2 + n3 + n4) + 2`. From 137 on; 2500 gives 788 blocks in the third stage, as in the authors'
    /// own `residual_imagenet_max.cpp`, and thereby 2498 layers.
    pub fn superneurons(depth: usize) -> Option<Self> {
        ResNetConfig { residual: Residual::Bottleneck, blocks: [6, 32, 0, 6], width: 64 }.deepened(depth)
    }

    /// The deepest network of basic blocks of at most `depth` layers: the 34-layer one with the third stage varied,
    /// `depth = 2 (3 + 4 + n3 + 3) + 2`. From 24 on. No paper has these.
    pub fn basic(depth: usize) -> Option<Self> {
        ResNetConfig { residual: Residual::Basic, blocks: [3, 4, 0, 3], width: 64 }.deepened(depth)
    }

    /// Layers with weights: convolutions, shortcuts apart, and the head.
    pub fn depth(&self) -> usize {
        self.blocks.iter().sum::<usize>() * self.residual.convolutions() + 2
    }

    fn deepened(mut self, depth: usize) -> Option<Self> {
        let blocks = depth.checked_sub(self.depth())? / self.residual.convolutions();
        self.blocks[2] += blocks;
        (blocks > 0).then_some(self)
    }
}

impl Residual {
    fn convolutions(self) -> usize {
        match self {
            Residual::Basic => 2,
            Residual::Bottleneck => 3,
        }
    }

    /// The channels that a block of so wide 3x3 convolutions makes.
    fn channels(self, width: usize) -> usize {
        match self {
            Residual::Basic => width,
            Residual::Bottleneck => 4 * width,
        }
    }
}

/// A residual network for images (He et al., "Deep residual learning for image recognition", CVPR 2016, table 1), with
/// projections where the shape changes (option B) and the stride on a block's first convolution, as there.
///
/// Parameters for 1000 classes: 11,689,512 (18 layers), 21,797,672 (34), 25,557,032 (50), 44,549,160 (101) and
/// 60,192,808 (152), as torchvision documents them. Those of deeper ones are not published.
#[derive(Module, Debug)]
pub struct ResNet<B: Backend> {
    stem: Normalized<B>,
    pool: MaxPool2d,
    blocks: Vec<Block<B>>,
    head: Linear<B>,
}

impl<B: Backend> ResNet<B> {
    /// For images of `channels` and any side; 32 is the smallest that each stride still halves.
    pub fn new(config: &ResNetConfig, channels: usize, classes: usize, device: &B::Device) -> Self {
        let mut blocks = Vec::with_capacity(config.blocks.iter().sum());
        let mut channels_in = config.width;
        for (stage, count) in config.blocks.into_iter().enumerate() {
            let width = config.width << stage;
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(Block::new(config.residual, channels_in, width, stride, device));
                channels_in = config.residual.channels(width);
            }
        }
        ResNet {
            stem: Normalized::new([channels, config.width], &Window::same(7).stride(2), device),
            pool: Window::same(3).stride(2).max_pool(),
            blocks,
            head: LinearConfig::new(channels_in, classes).init(device),
        }
    }

    /// From images `[batch, channels, side, side]` to class scores `[batch, classes]`.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let stem = self.pool.forward(relu(self.stem.forward(images)));
        let features = self.blocks.iter().fold(stem, |input, block| block.forward(input));
        self.head.forward(global_average(features))
    }
}

/// `relu(shortcut(input) + last(relu(...(relu(first(input))))))`.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    convolutions: Vec<Normalized<B>>,
    /// `None` is the identity.
    shortcut: Option<Normalized<B>>,
}

impl<B: Backend> Block<B> {
    fn new(residual: Residual, channels_in: usize, width: usize, stride: usize, device: &B::Device) -> Self {
        let channels_out = residual.channels(width);
        let convolution = |channels, window: Window| Normalized::new(channels, &window, device);
        let convolutions = match residual {
            Residual::Basic => vec![
                convolution([channels_in, width], Window::same(3).stride(stride)),
                convolution([width, width], Window::same(3)),
            ],
            Residual::Bottleneck => vec![
                convolution([channels_in, width], Window::same(1).stride(stride)),
                convolution([width, width], Window::same(3)),
                convolution([width, channels_out], Window::same(1)),
            ],
        };
        let projected = stride > 1 || channels_in != channels_out;
        let projection = || convolution([channels_in, channels_out], Window::same(1).stride(stride));
        Block { convolutions, shortcut: projected.then(projection) }
    }

    fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        let (last, first) = self.convolutions.split_last().expect("a block has convolutions");
        let inner = first.iter().fold(input.clone(), |input, layer| relu(layer.forward(input)));
        let shortcut = match &self.shortcut {
            Some(projection) => projection.forward(input),
            None => input,
        };
        relu(last.forward(inner) + shortcut)
    }
}
