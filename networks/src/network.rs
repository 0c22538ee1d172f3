//! Any of the networks as one module, and its training step.

use burn::module::{AutodiffModule, Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor};

use crate::alexnet::AlexNet;
use crate::densenet::DenseNet;
use crate::googlenet::GoogLeNet;
use crate::gpt::Gpt;
use crate::inception::InceptionV4;
use crate::lstm::Recurrent;
use crate::nin::NetworkInNetwork;
use crate::overfeat::OverFeat;
use crate::resnet::ResNet;
use crate::spec::{Architecture, Input, Spec};
use crate::unet::UNet;
use crate::vgg::Vgg;

/// One of the networks.
#[derive(Module, Debug)]
#[expect(missing_docs, reason = "each variant has the name of its network")]
pub enum Network<B: Backend> {
    AlexNet(AlexNet<B>),
    NetworkInNetwork(NetworkInNetwork<B>),
    OverFeat(OverFeat<B>),
    Vgg(Vgg<B>),
    GoogLeNet(GoogLeNet<B>),
    InceptionV4(InceptionV4<B>),
    ResNet(ResNet<B>),
    DenseNet(DenseNet<B>),
    UNet(UNet<B>),
    Recurrent(Recurrent<B>),
    Gpt(Gpt<B>),
}

/// What a network reads for a batch.
#[derive(Clone, Debug)]
pub enum SampleInput<B: Backend> {
    /// `[batch, channels, side, side]`
    Images(Tensor<B, 4>),
    /// `[batch, length]`
    Tokens(Tensor<B, 2, Int>),
}

/// A batch to learn from.
#[derive(Clone, Debug)]
pub struct Sample<B: Backend> {
    /// What the network reads.
    pub input: SampleInput<B>,
    /// The class of each row of scores, `[rows]`.
    pub targets: Tensor<B, 1, Int>,
}

impl<B: Backend> Network<B> {
    pub(crate) fn new(spec: &Spec, device: &B::Device) -> Self {
        let classes = spec.classes;
        let (channels, side, length) = match spec.input {
            Input::Image { channels, side } => (channels, side, 0),
            Input::Tokens { length } => (0, 0, length),
        };
        match &spec.architecture {
            Architecture::AlexNet => Network::AlexNet(AlexNet::new(channels, side, classes, device)),
            Architecture::NetworkInNetwork => {
                Network::NetworkInNetwork(NetworkInNetwork::new(channels, side, classes, device))
            }
            Architecture::OverFeat => Network::OverFeat(OverFeat::new(channels, side, classes, device)),
            Architecture::Vgg { convolutions } => {
                Network::Vgg(Vgg::new(*convolutions, channels, side, classes, device))
            }
            Architecture::GoogLeNet => Network::GoogLeNet(GoogLeNet::new(channels, side, classes, device)),
            Architecture::InceptionV4 => {
                Network::InceptionV4(InceptionV4::new(channels, side, classes, device))
            }
            Architecture::ResNet(config) => Network::ResNet(ResNet::new(config, channels, classes, device)),
            Architecture::DenseNet(config) => {
                Network::DenseNet(DenseNet::new(config, channels, classes, device))
            }
            Architecture::UNet { width } => Network::UNet(UNet::new(*width, channels, classes, device)),
            Architecture::Recurrent(config) => Network::Recurrent(Recurrent::new(config, classes, device)),
            Architecture::Gpt(config) => Network::Gpt(Gpt::new(config, classes, length, device)),
        }
    }

    /// Scores `[rows, classes]`: a row for each image, for each pixel of the output (U-Net), or for each token.
    ///
    /// # Panics
    ///
    /// If the network reads tokens and was given images, or the other way round.
    pub fn forward(&self, input: SampleInput<B>) -> Tensor<B, 2> {
        match input {
            SampleInput::Images(images) => self.image_scores(images),
            SampleInput::Tokens(tokens) => {
                let scores = match self {
                    Network::Recurrent(network) => network.forward(tokens),
                    Network::Gpt(network) => network.forward(tokens),
                    _ => panic!("this network reads images, not tokens"),
                };
                scores.flatten(0, 1)
            }
        }
    }

    fn image_scores(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        match self {
            Network::AlexNet(network) => network.forward(images),
            Network::NetworkInNetwork(network) => network.forward(images),
            Network::OverFeat(network) => network.forward(images),
            Network::Vgg(network) => network.forward(images),
            Network::GoogLeNet(network) => network.forward(images),
            Network::InceptionV4(network) => network.forward(images),
            Network::ResNet(network) => network.forward(images),
            Network::DenseNet(network) => network.forward(images),
            Network::UNet(network) => network.forward(images).permute([0, 2, 3, 1]).flatten(0, 2),
            Network::Recurrent(_) | Network::Gpt(_) => panic!("this network reads tokens, not images"),
        }
    }

    /// The mean cross-entropy of the scores, `[1]`.
    pub fn loss(&self, sample: Sample<B>) -> Tensor<B, 1> {
        let scores = self.forward(sample.input);
        CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, sample.targets)
    }
}

/// One step of training: forward, cross-entropy, backward, the optimizer's step. Gives the network after it and the loss
/// before it.
///
/// Reads no tensor's value, so it works on a device that has shapes and no data. Whoever reads the loss waits for it.
pub fn training_step<B: AutodiffBackend>(
    network: Network<B>,
    optimizer: &mut impl Optimizer<Network<B>, B>,
    learning_rate: f64,
    sample: Sample<B>,
) -> (Network<B>, Tensor<B::InnerBackend, 1>) {
    let loss = network.loss(sample);
    let value = loss.clone().inner();
    let gradients = GradientsParams::from_grads(loss.backward(), &network);
    (optimizer.step(learning_rate, network, gradients), value)
}

/// Trainable parameters, without drawing those that nothing has read yet.
///
/// Unlike Burn's `num_params`, not the running means and variances of batch normalization.
pub fn parameter_count<B: AutodiffBackend>(network: &impl AutodiffModule<B>) -> usize {
    struct Count(usize);
    impl<B: AutodiffBackend> ModuleVisitor<B> for Count {
        fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<B, D>>) {
            // Running statistics are visited as parameters that have a value and no gradient.
            if !parameter.is_initialized() || parameter.is_require_grad() {
                self.0 += parameter.lazy_shape().num_elements();
            }
        }
    }
    let mut count = Count(0);
    network.visit(&mut count);
    count.0
}
