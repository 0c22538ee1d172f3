//! What is trained: a small convolutional network on the digits.

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn_overcommit::{Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Batch, CLASSES, Digit, FOLDS, SIDE, shuffled};

/// The backend of training.
pub type Training = Autodiff<Overcommit>;

const CHANNELS: usize = 16;
const LAYERS: usize = 6;
const SEED: u64 = 7;
/// Burn's initialization draws from here.
const WEIGHTS_SEED: u64 = 3;

/// Six convolutions whose outputs are added to their inputs, and a linear layer.
#[derive(Module, Debug)]
pub struct Network<B: Backend> {
    layers: Vec<Conv2d<B>>,
    head: Linear<B>,
}

impl Network<Training> {
    /// A network with the weights that every node begins with.
    pub fn new(device: &OvercommitDevice) -> Self {
        Training::seed(device, WEIGHTS_SEED);
        let layer = |index| {
            let channels = [if index == 0 { 1 } else { CHANNELS }, CHANNELS];
            Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Same).init(device)
        };
        let layers = (0..LAYERS).map(layer).collect();
        let network =
            Network { layers, head: LinearConfig::new(CHANNELS * SIDE * SIDE, CLASSES).init(device) };
        // Burn draws weights where and when they are first looked at: here, in order.
        drop(burn_overcommit_examples::weights_bits(&network));
        network
    }

    /// The mean loss of some digits.
    pub fn loss(&self, digits: &[Digit], device: &OvercommitDevice) -> Tensor<Training, 1> {
        let batch = Batch::<Training>::new(digits, device);
        // The image is added to all channels of the first layer's output.
        let features = self.layers.iter().fold(batch.images, |x, layer| x.clone() + relu(layer.forward(x)));
        let scores = self.head.forward(features.flatten(1, 3));
        CrossEntropyLossConfig::new().init(device).forward(scores, batch.labels)
    }
}

/// The digits of a node in a step: its part of the step's batch, in the node's order.
pub fn part_of_batch(digits: &[Digit], step: usize, batch: usize, rank: usize, nodes: usize) -> Vec<Digit> {
    let steps_per_epoch = digits.len() / batch;
    let order = shuffled(digits, SEED, step / steps_per_epoch);
    let part = batch / nodes;
    let first = step % steps_per_epoch * batch + rank * part;
    order[first..first + part].to_vec()
}

/// The digits to learn from.
pub fn digits() -> Vec<Digit> {
    let digits = burn_overcommit_examples::digits::Digits::without_fold(FOLDS - 1);
    digits.expect("the digits are part of the program").train
}
