use burn::config::Config;
use burn::module::{Initializer, Module};
use burn::nn::{Gelu, Linear, LinearConfig};
use burn::tensor::activation::quiet_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Tensor};

use super::{Dropout, DropoutConfig};
use crate::autodiff::{AttentionDropout, AttentionModuleOptions, SavesLess, attention};

/// The configuration of a [`MultiHeadAttention`], like `burn::nn::attention::MultiHeadAttentionConfig`.
#[derive(Config, Debug)]
pub struct MultiHeadAttentionConfig {
    /// Width of inputs and outputs.
    pub d_model: usize,
    /// The number of heads, which divide the width among them.
    pub n_heads: usize,
    /// The probability with which a score becomes zero.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// The value of a masked score with a quiet softmax; otherwise, a masked score does not count at all.
    #[config(default = -1.0e4)]
    pub min_float: f64,
    /// Whether to use the quiet softmax, whose weights may add up to less than one (Miller, "Attention is off by
    /// one", 2023), by Burn's operations.
    #[config(default = false)]
    pub quiet_softmax: bool,
    /// The initializer of the four linear layers.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
}

/// Multi-head attention (Vaswani et al., "Attention Is All You Need", 2017) by [`attention`], which keeps no scores.
///
/// It differs from Burn's in two ways. The output contains no weights, which would have to be kept. A query that may
/// see no key has a context of zeros before the last layer, rather than the mean of all values.
#[derive(Module, Debug)]
pub struct MultiHeadAttention<B: Backend> {
    /// Makes queries.
    pub query: Linear<B>,
    /// Makes keys.
    pub key: Linear<B>,
    /// Makes values.
    pub value: Linear<B>,
    /// Combines the results of the heads into the context.
    pub output: Linear<B>,
    /// Dropout of the scores.
    pub dropout: Dropout,
    /// Not used; kept for the record.
    pub activation: Gelu,
    /// Width of inputs and outputs.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// Width of a head.
    pub d_k: usize,
    /// The value of a masked score with a quiet softmax.
    pub min_float: f64,
    /// Whether to use the quiet softmax.
    pub quiet_softmax: bool,
}

/// The input of a [`MultiHeadAttention`].
#[derive(Debug, Clone)]
pub struct MhaInput<B: Backend> {
    query: Tensor<B, 3>,
    key: Tensor<B, 3>,
    value: Tensor<B, 3>,
    mask_pad: Option<Tensor<B, 2, Bool>>,
    mask_attn: Option<Tensor<B, 3, Bool>>,
}

impl<B: Backend> MhaInput<B> {
    /// Attention of a sequence to itself, `[batch, length, d_model]`.
    pub fn self_attn(tensor: Tensor<B, 3>) -> Self {
        Self::new(tensor.clone(), tensor.clone(), tensor)
    }

    /// Attention of `query[batch, queries, d_model]` to `key` and `value[batch, keys, d_model]`.
    pub fn new(query: Tensor<B, 3>, key: Tensor<B, 3>, value: Tensor<B, 3>) -> Self {
        Self { query, key, value, mask_pad: None, mask_attn: None }
    }

    /// `[batch, keys]`, true where a key does not count.
    pub fn mask_pad(mut self, mask_pad: Tensor<B, 2, Bool>) -> Self {
        self.mask_pad = Some(mask_pad);
        self
    }

    /// `[batch, queries, keys]`, true where a key does not count for a query.
    pub fn mask_attn(mut self, mask_attn: Tensor<B, 3, Bool>) -> Self {
        self.mask_attn = Some(mask_attn);
        self
    }

    /// Both masks as one that expands to `[batch, heads, queries, keys]`.
    fn mask(&self) -> Option<Tensor<B, 4, Bool>> {
        let [batch, queries, _] = self.query.dims();
        let keys = self.key.dims()[1];
        let pad = self.mask_pad.clone().map(|mask| mask.reshape([batch, 1, 1, keys]));
        let each = self.mask_attn.clone().map(|mask| mask.reshape([batch, 1, queries, keys]));
        match (pad, each) {
            (Some(pad), Some(each)) => Some(pad.expand([batch, 1, queries, keys]).bool_or(each)),
            (pad, each) => pad.or(each),
        }
    }
}

/// The output of a [`MultiHeadAttention`].
#[derive(Debug, Clone)]
pub struct MhaOutput<B: Backend> {
    /// `[batch, queries, d_model]`.
    pub context: Tensor<B, 3>,
}

impl MultiHeadAttentionConfig {
    /// The module.
    ///
    /// # Panics
    /// If there are no heads, or the probability is not at least 0 and less than 1.
    pub fn init<B: Backend>(&self, device: &B::Device) -> MultiHeadAttention<B> {
        let linear = || {
            let config = LinearConfig::new(self.d_model, self.d_model);
            config.with_initializer(self.initializer.clone()).init(device)
        };
        MultiHeadAttention {
            query: linear(),
            key: linear(),
            value: linear(),
            output: linear(),
            dropout: DropoutConfig::new(self.dropout).init(),
            activation: Gelu::new(),
            d_model: self.d_model,
            n_heads: self.n_heads,
            d_k: self.d_model / self.n_heads,
            min_float: self.min_float,
            quiet_softmax: self.quiet_softmax,
        }
    }
}

impl<B: SavesLess> MultiHeadAttention<B> {
    /// Computes the context of each query.
    ///
    /// # Panics
    /// If shapes do not fit, or what is needed does not fit the budget.
    pub fn forward(&self, input: MhaInput<B>) -> MhaOutput<B> {
        let [batch, queries, width] = input.query.dims();
        let mask = input.mask();
        let [query, key, value] =
            [(&self.query, input.query), (&self.key, input.key), (&self.value, input.value)]
                .map(|(linear, x)| self.heads(linear, x));
        let scale = 1.0 / f64::from(self.d_k as f32).sqrt();
        let found = if self.quiet_softmax {
            let scores = self.dropout.forward(query.matmul(key.transpose()).mul_scalar(scale));
            let scores = match mask {
                Some(mask) => scores.mask_fill(mask, self.min_float),
                None => scores,
            };
            quiet_softmax(scores, 3).matmul(value)
        } else {
            let drops = B::ad_enabled(&query.device()) && self.dropout.prob > 0.0;
            let options = AttentionModuleOptions { scale: Some(scale), ..Default::default() };
            let dropout = drops.then_some(AttentionDropout::Scores(self.dropout.prob));
            attention(query, key, value, mask, None, options, dropout)
        };
        let context = found.swap_dims(1, 2).reshape([batch, queries, width]);
        MhaOutput { context: self.output.forward(context) }
    }

    fn heads(&self, linear: &Linear<B>, x: Tensor<B, 3>) -> Tensor<B, 4> {
        let [batch, length, _] = x.dims();
        linear.forward(x).reshape([batch, length, self.n_heads, self.d_k]).swap_dims(1, 2)
    }
}
