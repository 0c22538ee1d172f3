//! GPT of any size.

use burn::module::{Initializer, Module};
use burn::nn::{
    Dropout, DropoutConfig, Embedding, EmbeddingConfig, Gelu, LayerNorm, LayerNormConfig, Linear,
    LinearConfig,
};
use burn::tensor::activation::softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Int, Tensor};

/// The size of a GPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GptConfig {
    /// Transformer blocks.
    pub layers: usize,
    /// Features of each token between blocks.
    pub width: usize,
    /// Attention heads; they divide `width`.
    pub heads: usize,
}

impl GptConfig {
    /// GPT-2 `small`, `medium`, `large` and `xl` (table 2).
    pub fn published(size: &str) -> Option<Self> {
        let (layers, width) = match size {
            "small" => (12, 768),
            "medium" => (24, 1024),
            "large" => (36, 1280),
            "xl" => (48, 1600),
            _ => return None,
        };
        Some(GptConfig::new(layers, width))
    }

    /// So many blocks of a width that is a multiple of 64, with heads of 64 features, as all of GPT-2 have.
    pub fn new(layers: usize, width: usize) -> Self {
        GptConfig { layers, width, heads: width / 64 }
    }
}

/// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3 and table 2), of any
/// size. The embedding's weights are the output's too.
///
/// Parameters for a vocabulary of 50,257 and 1024 tokens: 124,439,808 (small), 354,823,168 (medium), 774,030,080 (large)
/// and 1,557,611,200 (xl), as in Hugging Face transformers and KerasHub; table 2 says 117, 345, 762 and 1542 million, which
/// OpenAI corrected later.
#[derive(Module, Debug)]
pub struct Gpt<B: Backend> {
    tokens: Embedding<B>,
    positions: Embedding<B>,
    dropout: Dropout,
    blocks: Vec<Block<B>>,
    norm: LayerNorm<B>,
}

impl<B: Backend> Gpt<B> {
    /// For so large a `vocabulary` and at most `length` tokens.
    pub fn new(config: &GptConfig, vocabulary: usize, length: usize, device: &B::Device) -> Self {
        // Scores are products with the embedding: at Burn's deviation of 1 they would start far too large.
        let initializer = Initializer::Normal { mean: 0.0, std: 0.02 };
        let embedding =
            |count| EmbeddingConfig::new(count, config.width).with_initializer(initializer.clone());
        Gpt {
            tokens: embedding(vocabulary).init(device),
            positions: embedding(length).init(device),
            dropout: DropoutConfig::new(DROPOUT).init(),
            blocks: (0..config.layers).map(|_| Block::new(config, device)).collect(),
            norm: LayerNormConfig::new(config.width).init(device),
        }
    }

    /// From tokens `[batch, length]` to scores of each next one, `[batch, length, vocabulary]`.
    pub fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let [_, length] = tokens.dims();
        let later = Tensor::<B, 2, Bool>::tril_mask([length, length], 0, &tokens.device()).unsqueeze::<4>();
        self.forward_by(tokens, &|inputs, dropout| attend(inputs, later.clone(), dropout))
    }

    /// The same where heads attend in another way.
    pub fn forward_by(&self, tokens: Tensor<B, 2, Int>, attend: &Attend<'_, B>) -> Tensor<B, 3> {
        let [_, length] = tokens.dims();
        let positions = Tensor::arange(0..length as i64, &tokens.device()).unsqueeze::<2>();
        let embedded = self.tokens.forward(tokens) + self.positions.forward(positions);
        let block = |input, block: &Block<B>| block.forward(input, attend);
        let features = self.norm.forward(self.blocks.iter().fold(self.dropout.forward(embedded), block));
        features.matmul(self.tokens.weight.val().transpose().unsqueeze::<3>())
    }
}

const DROPOUT: f64 = 0.1;

/// How heads attend: from queries, keys and values `[batch, heads, length, size]` to the values as each query weighs them. A
/// query sees the keys up to its own, its scores are divided by the root of the size, and weights are dropped.
pub type Attend<'a, B> = dyn Fn([Tensor<B, 4>; 3], &Dropout) -> Tensor<B, 4> + 'a;

/// [`Attend`] by products and Burn's softmax. `later` is true where the key comes after the query.
fn attend<B: Backend>(
    [queries, keys, values]: [Tensor<B, 4>; 3],
    later: Tensor<B, 4, Bool>,
    dropout: &Dropout,
) -> Tensor<B, 4> {
    let [.., size] = queries.dims();
    let scores = queries.matmul(keys.transpose()).div_scalar((size as f64).sqrt());
    dropout.forward(softmax(scores.mask_fill(later, f32::NEG_INFINITY), 3)).matmul(values)
}

/// `x + attention(norm(x))`, then `x + wide(norm(x))`.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    attention_norm: LayerNorm<B>,
    attention: Attention<B>,
    wide_norm: LayerNorm<B>,
    widen: Linear<B>,
    gelu: Gelu,
    narrow: Linear<B>,
    dropout: Dropout,
}

impl<B: Backend> Block<B> {
    fn new(config: &GptConfig, device: &B::Device) -> Self {
        let width = config.width;
        Block {
            attention_norm: LayerNormConfig::new(width).init(device),
            attention: Attention::new(config, device),
            wide_norm: LayerNormConfig::new(width).init(device),
            widen: LinearConfig::new(width, 4 * width).init(device),
            gelu: Gelu::new_approximate(),
            narrow: LinearConfig::new(4 * width, width).init(device),
            dropout: DropoutConfig::new(DROPOUT).init(),
        }
    }

    fn forward(&self, input: Tensor<B, 3>, attend: &Attend<'_, B>) -> Tensor<B, 3> {
        let attended = self.attention.forward(self.attention_norm.forward(input.clone()), attend);
        let input = input + self.dropout.forward(attended);
        let wide = self.gelu.forward(self.widen.forward(self.wide_norm.forward(input.clone())));
        input + self.dropout.forward(self.narrow.forward(wide))
    }
}

/// Causal attention of several heads.
#[derive(Module, Debug)]
struct Attention<B: Backend> {
    /// Queries, keys and values in one product.
    inputs: Linear<B>,
    output: Linear<B>,
    dropout: Dropout,
    heads: usize,
}

impl<B: Backend> Attention<B> {
    fn new(config: &GptConfig, device: &B::Device) -> Self {
        assert!(
            config.width.is_multiple_of(config.heads),
            "{} heads do not divide {}",
            config.heads,
            config.width
        );
        Attention {
            inputs: LinearConfig::new(config.width, 3 * config.width).init(device),
            output: LinearConfig::new(config.width, config.width).init(device),
            dropout: DropoutConfig::new(DROPOUT).init(),
            heads: config.heads,
        }
    }

    fn forward(&self, input: Tensor<B, 3>, attend: &Attend<'_, B>) -> Tensor<B, 3> {
        let [batch, length, width] = input.dims();
        let size = width / self.heads;
        let inputs = self.inputs.forward(input);
        let part = |index: usize| {
            let part = inputs.clone().narrow(2, index * width, width);
            part.reshape([batch, length, self.heads, size]).swap_dims(1, 2)
        };
        let attended = attend([0, 1, 2].map(part), &self.dropout);
        let attended = attended.swap_dims(1, 2).reshape([batch, length, width]);
        self.output.forward(attended)
    }
}
