//! Recurrent language models.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};

/// The size of a recurrent language model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentConfig {
    /// Recurrent layers.
    pub layers: usize,
    /// Units of each layer and of the embedding.
    pub width: usize,
    /// The share of units dropped between layers.
    pub dropout: f64,
}

impl RecurrentConfig {
    /// The Penn Treebank models `small`, `medium` and `large` (section 4.1 of the paper): 200, 650 and 1500 units. Dropout and
    /// the length of sequences are unverified.
    pub fn published(size: &str) -> Option<Self> {
        let (width, dropout) = match size {
            "small" => (200, 0.0),
            "medium" => (650, 0.5),
            "large" => (1500, 0.65),
            _ => return None,
        };
        Some(RecurrentConfig { layers: 2, width, dropout })
    }
}

/// A stacked LSTM over word embeddings, predicting each next word (Zaremba, Sutskever and Vinyals, "Recurrent neural
/// network regularization", arXiv 1409.2329, section 4.1).
///
/// With one bias for each gate and a vocabulary of 10,000, the medium model has 19,775,200 parameters and the large one
/// 66,022,000 (the 20 and 66 million that the literature on it states). Burn's LSTM has a bias on the input and one on the
/// recurrent product of each gate, 4 x width x layers more: 19,780,400 and 66,034,000.
#[derive(Module, Debug)]
pub struct Recurrent<B: Backend> {
    embedding: Embedding<B>,
    layers: Vec<Lstm<B>>,
    dropout: Dropout,
    head: Linear<B>,
}

impl<B: Backend> Recurrent<B> {
    /// For so large a `vocabulary`.
    pub fn new(config: &RecurrentConfig, vocabulary: usize, device: &B::Device) -> Self {
        let layer = LstmConfig::new(config.width, config.width, true);
        Recurrent {
            embedding: EmbeddingConfig::new(vocabulary, config.width).init(device),
            layers: (0..config.layers).map(|_| layer.init(device)).collect(),
            dropout: DropoutConfig::new(config.dropout).init(),
            head: LinearConfig::new(config.width, vocabulary).init(device),
        }
    }

    /// From tokens `[batch, length]` to scores of each next one, `[batch, length, vocabulary]`.
    pub fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let embedded = self.dropout.forward(self.embedding.forward(tokens));
        let layer = |input, layer: &Lstm<B>| self.dropout.forward(layer.forward(input, None).0);
        self.head.forward(self.layers.iter().fold(embedded, layer))
    }
}
