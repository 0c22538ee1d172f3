//! Networks by name.

use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Int, Tensor};

use crate::densenet::DenseNetConfig;
use crate::gpt::GptConfig;
use crate::lstm::RecurrentConfig;
use crate::network::{Network, Sample, SampleInput};
use crate::resnet::ResNetConfig;
use crate::{unet, vgg};

/// A family of networks and what sets its members apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Architecture {
    /// [`AlexNet`](crate::alexnet::AlexNet)
    AlexNet,
    /// [`NetworkInNetwork`](crate::nin::NetworkInNetwork)
    NetworkInNetwork,
    /// [`OverFeat`](crate::overfeat::OverFeat)
    OverFeat,
    /// [`Vgg`](crate::vgg::Vgg)
    Vgg {
        /// Convolutions in each stage.
        convolutions: [usize; 5],
    },
    /// [`GoogLeNet`](crate::googlenet::GoogLeNet)
    GoogLeNet,
    /// [`InceptionV4`](crate::inception::InceptionV4)
    InceptionV4,
    /// [`ResNet`](crate::resnet::ResNet)
    ResNet(ResNetConfig),
    /// [`DenseNet`](crate::densenet::DenseNet)
    DenseNet(DenseNetConfig),
    /// [`UNet`](crate::unet::UNet)
    UNet {
        /// Channels of the first convolution.
        width: usize,
    },
    /// [`Recurrent`](crate::lstm::Recurrent)
    Recurrent(RecurrentConfig),
    /// [`Gpt`](crate::gpt::Gpt)
    Gpt(GptConfig),
}

/// What a network reads for each sample of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A square image: `[channels, side, side]`.
    Image {
        /// Channels of each pixel.
        channels: usize,
        /// Pixels in a row, and rows.
        side: usize,
    },
    /// A sequence of tokens: `[length]`.
    Tokens {
        /// Tokens in the sequence.
        length: usize,
    },
}

/// A network, and the shapes it is trained with; all of it can be changed before anything is built.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The name that [`by_name`] knows it by.
    pub name: String,
    /// What is built.
    pub architecture: Architecture,
    /// What it reads.
    pub input: Input,
    /// What it chooses between: classes of images or of pixels, or the words of a vocabulary.
    pub classes: usize,
}

/// Names that [`by_name`] knows, one or more of each family.
pub const EXAMPLES: [&str; 30] = [
    "alexnet",
    "nin",
    "overfeat",
    "googlenet",
    "inception-v4",
    "vgg-16",
    "vgg-19",
    "vgg-116",
    "vgg-216",
    "vgg-316",
    "vgg-416",
    "resnet-18",
    "resnet-34",
    "resnet-50",
    "resnet-101",
    "resnet-152",
    "resnet-1001",
    "resnet-2500",
    "resnet-basic-1000",
    "densenet-121",
    "densenet-169",
    "densenet-201",
    "unet",
    "lstm-small",
    "lstm-medium",
    "lstm-large",
    "gpt2-small",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
];

/// The network of that name, with the input and the classes of its paper.
///
/// | name | network |
/// |---|---|
/// | `alexnet`, `nin`, `overfeat`, `googlenet`, `inception-v4`, `unet` | that one |
/// | `vgg-N` | 16, 19, or 16 and any multiple of five more: [`vgg::convolutions`] |
/// | `resnet-N` | 18, 34, 50, 101, 152, or from 137 on: [`ResNetConfig::superneurons`] |
/// | `resnet-basic-N` | basic blocks, from 24 on: [`ResNetConfig::basic`] |
/// | `densenet-N` | 121, 169, 201 |
/// | `lstm-SIZE` | `small`, `medium`, `large` |
/// | `gpt2-SIZE` | `small`, `medium`, `large`, `xl` |
/// | `gpt-LxW` | L blocks of width W, a multiple of 64 |
pub fn by_name(name: &str) -> Option<Spec> {
    let image = |side| (Input::Image { channels: 3, side }, 1000);
    let (architecture, (input, classes)) = match name {
        "alexnet" => (Architecture::AlexNet, image(227)),
        "nin" => (Architecture::NetworkInNetwork, image(224)),
        "overfeat" => (Architecture::OverFeat, image(231)),
        "googlenet" => (Architecture::GoogLeNet, image(224)),
        "inception-v4" => (Architecture::InceptionV4, image(299)),
        "unet" => (Architecture::UNet { width: 64 }, (Input::Image { channels: 1, side: 572 }, 2)),
        _ => sized(name)?,
    };
    Some(Spec { name: name.to_owned(), architecture, input, classes })
}

/// The networks that come in sizes.
fn sized(name: &str) -> Option<(Architecture, (Input, usize))> {
    let (family, size) = name.rsplit_once('-')?;
    let depth = || size.parse::<usize>().ok();
    let image = (Input::Image { channels: 3, side: 224 }, 1000);
    // Zaremba 2014, section 4.1: 20 steps for the small model, 35 for the others.
    let words = (Input::Tokens { length: if size == "small" { 20 } else { 35 } }, 10_000);
    let tokens = (Input::Tokens { length: 1024 }, 50_257);
    Some(match family {
        "vgg" => (Architecture::Vgg { convolutions: vgg::convolutions(depth()?)? }, image),
        "resnet" => {
            let published = ResNetConfig::published(depth()?);
            (Architecture::ResNet(published.or_else(|| ResNetConfig::superneurons(depth()?))?), image)
        }
        "resnet-basic" => (Architecture::ResNet(ResNetConfig::basic(depth()?)?), image),
        "densenet" => (Architecture::DenseNet(DenseNetConfig::published(depth()?)?), image),
        "lstm" => (Architecture::Recurrent(RecurrentConfig::published(size)?), words),
        "gpt2" => (Architecture::Gpt(GptConfig::published(size)?), tokens),
        "gpt" => {
            let (layers, width) = size.split_once('x')?;
            let (layers, width) = (layers.parse().ok()?, width.parse::<usize>().ok()?);
            (width >= 64 && width.is_multiple_of(64)).then_some(())?;
            (Architecture::Gpt(GptConfig::new(layers, width)), tokens)
        }
        _ => return None,
    })
}

impl Spec {
    /// The same network for images of another side.
    ///
    /// # Panics
    ///
    /// If it reads tokens.
    pub fn with_side(self, side: usize) -> Self {
        let Input::Image { channels, .. } = self.input else {
            panic!("{} reads tokens, not images", self.name)
        };
        Spec { input: Input::Image { channels, side }, ..self }
    }

    /// The same network for sequences of another length.
    ///
    /// # Panics
    ///
    /// If it reads images.
    pub fn with_length(self, length: usize) -> Self {
        let Input::Tokens { .. } = self.input else { panic!("{} reads images, not tokens", self.name) };
        Spec { input: Input::Tokens { length }, ..self }
    }

    /// The network of that name for images of another side or sequences of another length, where they are given: for
    /// programs that are told by their user.
    ///
    /// # Errors
    ///
    /// A name that [`by_name`] does not know, or a size of what the network does not read, in words.
    pub fn named(name: &str, side: Option<usize>, length: Option<usize>) -> Result<Self, String> {
        let examples = EXAMPLES.join(", ");
        let spec =
            by_name(name).ok_or_else(|| format!("unknown network \"{name}\": try one of {examples}"))?;
        match (spec.input, side, length) {
            (_, None, None) => Ok(spec),
            (Input::Image { .. }, Some(side), None) => Ok(spec.with_side(side)),
            (Input::Tokens { .. }, None, Some(length)) => Ok(spec.with_length(length)),
            (Input::Image { .. }, ..) => Err(format!("{name} reads images: give a side, not a length")),
            (Input::Tokens { .. }, ..) => Err(format!("{name} reads tokens: give a length, not a side")),
        }
    }

    /// The same network for another number of classes.
    pub fn with_classes(self, classes: usize) -> Self {
        Spec { classes, ..self }
    }

    /// The network. Its parameters are drawn on the device when they are first read, as all of Burn's.
    pub fn network<B: Backend>(&self, device: &B::Device) -> Network<B> {
        Network::new(self, device)
    }

    /// Rows of scores for so large a batch: an image's class, each pixel's, or each next token.
    pub fn rows(&self, batch: usize) -> usize {
        match (self.architecture, self.input) {
            (Architecture::UNet { .. }, Input::Image { side, .. }) => batch * unet::output_side(side).pow(2),
            (_, Input::Image { .. }) => batch,
            (_, Input::Tokens { length }) => batch * length,
        }
    }

    /// A batch made on the device: noise for images, and tokens and targets that count up, from nothing but shapes.
    pub fn sample<B: Backend>(&self, batch: usize, device: &B::Device) -> Sample<B> {
        let count = |length: usize| {
            let indices = Tensor::<B, 1, Int>::arange(0..length as i64, device);
            indices.remainder_scalar(self.classes as i64)
        };
        let input = match self.input {
            Input::Image { channels, side } => {
                let noise = Distribution::Normal(0.0, 1.0);
                SampleInput::Images(Tensor::random([batch, channels, side, side], noise, device))
            }
            Input::Tokens { length } => SampleInput::Tokens(count(batch * length).reshape([batch, length])),
        };
        Sample { input, targets: count(self.rows(batch)) }
    }
}
