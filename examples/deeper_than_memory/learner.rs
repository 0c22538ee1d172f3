//! One training step: forward, backward, Adam.

use burn::module::AutodiffModule;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::{Adam, AdamConfig, GradientsParams, Optimizer};
use burn::tensor::ElementConversion;
use burn::tensor::backend::AutodiffBackend;

use crate::data::Batch;
use crate::model::Network;

/// A network and the state of its optimizer: all that training keeps on the device between two steps.
pub struct Learner<B: AutodiffBackend> {
    network: Network<B>,
    optimizer: OptimizerAdaptor<Adam, Network<B>, B>,
}

impl<B: AutodiffBackend> Learner<B> {
    /// Seeds the backend and draws a network of `depth` blocks.
    pub fn new(depth: usize, seed: u64, device: &B::Device) -> Self {
        B::seed(device, seed);
        Learner { network: Network::new(depth, device), optimizer: AdamConfig::new().init() }
    }

    /// Learns from one batch; the loss before the step. Reading it waits for the device, so a step can be timed.
    pub fn step(self, batch: Batch<B>, learning_rate: f64) -> (Self, f32) {
        let Learner { network, mut optimizer } = self;
        let scores = network.forward(batch.images);
        let loss = CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, batch.labels);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        let network = optimizer.step(learning_rate, network, gradients);
        (Learner { network, optimizer }, loss.into_scalar().elem())
    }

    /// The network as it predicts: no dropout, no gradients, the batch norms' running statistics up to date.
    pub fn valid(&self) -> Network<B::InnerBackend> {
        self.network.valid()
    }
}
