//! Two small networks of Burn's own modules, and their training steps.

use burn::module::{AutodiffModule, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Int, Tensor, TensorData};

use crate::{BATCH, LEARNING_RATE, SEED, Step};

const VOCABULARY: usize = 1000;
const CLASSES: usize = 10;
const TOKENS: usize = 64;
const WIDTH: usize = 128;

/// Four encoder layers of eight heads over embedded tokens.
#[derive(Module, Debug)]
struct Transformer<B: Backend> {
    embedding: Embedding<B>,
    encoder: TransformerEncoder<B>,
    head: Linear<B>,
}

/// One recurrent layer over embedded tokens.
#[derive(Module, Debug)]
struct Recurrent<B: Backend> {
    embedding: Embedding<B>,
    lstm: Lstm<B>,
    head: Linear<B>,
}

/// Scores of classes from tokens `[batch, tokens]`.
trait Classifier<B: Backend> {
    fn scores(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 2>;
}

impl<B: Backend> Classifier<B> for Transformer<B> {
    fn scores(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let embedded = self.embedding.forward(tokens);
        let encoded = self.encoder.forward(TransformerEncoderInput::new(embedded));
        self.head.forward(encoded.mean_dim(1).squeeze_dim(1))
    }
}

impl<B: Backend> Classifier<B> for Recurrent<B> {
    fn scores(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let (_, last) = self.lstm.forward(self.embedding.forward(tokens), None);
        self.head.forward(last.hidden)
    }
}

pub fn transformer<B: AutodiffBackend>(device: &B::Device) -> Step {
    B::seed(device, SEED);
    train(
        Transformer {
            embedding: EmbeddingConfig::new(VOCABULARY, WIDTH).init::<B>(device),
            encoder: TransformerEncoderConfig::new(WIDTH, 4 * WIDTH, 8, 4).init(device),
            head: LinearConfig::new(WIDTH, CLASSES).init(device),
        },
        device,
    )
}

pub fn lstm<B: AutodiffBackend>(device: &B::Device) -> Step {
    B::seed(device, SEED);
    train(
        Recurrent {
            embedding: EmbeddingConfig::new(VOCABULARY, WIDTH).init::<B>(device),
            lstm: LstmConfig::new(WIDTH, WIDTH, true).init(device),
            head: LinearConfig::new(WIDTH, CLASSES).init(device),
        },
        device,
    )
}

/// Steps of Adam over one batch.
fn train<B: AutodiffBackend, M: AutodiffModule<B> + Classifier<B> + 'static>(
    network: M,
    device: &B::Device,
) -> Step {
    let numbers = |count: usize, below: usize| (0..count).map(|i| ((i * 7919 + 13) % below) as i32).collect();
    let tokens = TensorData::new(numbers(BATCH * TOKENS, VOCABULARY), [BATCH, TOKENS]);
    let tokens = Tensor::<B, 2, Int>::from_data(tokens, device);
    let labels = Tensor::<B, 1, Int>::from_data(TensorData::new(numbers(BATCH, CLASSES), [BATCH]), device);
    let mut optimizer = AdamConfig::new().init();
    let (mut network, device) = (Some(network), device.clone());
    Box::new(move || {
        let before = network.take().expect("every step leaves a network");
        let scores = before.scores(tokens.clone());
        let loss = CrossEntropyLossConfig::new().init(&device).forward(scores, labels.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &before);
        network = Some(optimizer.step(LEARNING_RATE, before, gradients));
        loss.into_scalar().elem()
    })
}
