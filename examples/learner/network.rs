//! The network, and what Burn's `Learner` asks of it.

use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_overcommit_examples::digits::{Batch, CLASSES, Digit, SIDE};

const CHANNELS: usize = 16;

/// Convolutions and a head.
#[derive(Module, Debug)]
pub struct Network<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    head: Linear<B>,
}

impl<B: Backend> Network<B> {
    /// A network with weights drawn from the backend's random numbers.
    pub fn new(device: &B::Device) -> Self {
        let convolution = |channels_in| {
            let config = Conv2dConfig::new([channels_in, CHANNELS], [3, 3]);
            config.with_padding(PaddingConfig2d::Same).init(device)
        };
        let convolutions = [1, CHANNELS, CHANNELS, CHANNELS].map(convolution).into();
        Network { convolutions, head: LinearConfig::new(CHANNELS * SIDE * SIDE, CLASSES).init(device) }
    }

    fn forward(&self, Batch { images, labels }: Batch<B>) -> ClassificationOutput<B> {
        let convolved = |x, layer: &Conv2d<B>| activation::relu(layer.forward(x));
        let scores = self.head.forward(self.convolutions.iter().fold(images, convolved).flatten(1, 3));
        let loss = CrossEntropyLossConfig::new().init(&scores.device());
        ClassificationOutput::new(loss.forward(scores.clone(), labels.clone()), scores, labels)
    }
}

impl<B: AutodiffBackend> TrainStep for Network<B> {
    type Input = Batch<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Batch<B>) -> TrainOutput<ClassificationOutput<B>> {
        let output = self.forward(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Network<B> {
    type Input = Batch<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Batch<B>) -> ClassificationOutput<B> {
        self.forward(batch)
    }
}

/// Puts digits onto a device.
pub struct Upload;

impl<B: Backend> Batcher<B, Digit, Batch<B>> for Upload {
    fn batch(&self, digits: Vec<Digit>, device: &B::Device) -> Batch<B> {
        Batch::new(&digits, device)
    }
}
