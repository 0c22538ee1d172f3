//! Modules that replace Burn's of the same names. They have the same fields, configurations, initial values and
//! records. So the only change is `use burn_overcommit::autodiff::nn::LayerNorm` in place of `use
//! burn::nn::LayerNorm`, and a record that one of them saved can be loaded by the other.
//!
//! ```
//! use burn::backend::Autodiff;
//! use burn::tensor::Tensor;
//! use burn_overcommit::autodiff::nn::LayerNormConfig;
//! use burn_overcommit::{Overcommit, OvercommitDevice};
//!
//! let device = OvercommitDevice::Host(0);
//! let norm = LayerNormConfig::new(4).init::<Autodiff<Overcommit>>(&device);
//! let y = norm.forward(Tensor::<_, 2>::from_floats([[1.0, 2.0, 3.0, 4.0]], &device));
//! assert!(y.sum().into_scalar().abs() < 1e-5);
//! ```

mod attention;
mod batch;

pub use attention::{MhaInput, MhaOutput, MultiHeadAttention, MultiHeadAttentionConfig};
pub use batch::{BatchNorm, BatchNormConfig};

use burn::config::Config;
use burn::module::{Initializer, Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::SavesLess;

/// The configuration of a [`LayerNorm`], like `burn::nn::LayerNormConfig`.
#[derive(Config, Debug)]
pub struct LayerNormConfig {
    /// Length of the last axis.
    pub d_model: usize,
    /// Added to the variance.
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Whether there is a beta.
    #[config(default = true)]
    pub bias: bool,
}

/// Layer norm over the last axis ([`layer_norm`](super::layer_norm)).
#[derive(Module, Debug)]
pub struct LayerNorm<B: Backend> {
    /// Factors, `[d_model]`.
    pub gamma: Param<Tensor<B, 1>>,
    /// The bias, `[d_model]`.
    pub beta: Option<Param<Tensor<B, 1>>>,
    epsilon: f64,
}

impl LayerNormConfig {
    /// A module with ones as gamma and zeros as beta.
    pub fn init<B: Backend>(&self, device: &B::Device) -> LayerNorm<B> {
        let beta = self.bias.then(|| Initializer::Zeros.init([self.d_model], device));
        LayerNorm { gamma: Initializer::Ones.init([self.d_model], device), beta, epsilon: self.epsilon }
    }
}

impl<B: SavesLess> LayerNorm<B> {
    /// Normalizes a tensor of any shape that ends in `d_model`.
    ///
    /// # Panics
    /// As [`layer_norm`](super::layer_norm).
    pub fn forward<const D: usize>(&self, input: Tensor<B, D>) -> Tensor<B, D> {
        let beta = self.beta.as_ref().map(|beta| beta.val());
        super::layer_norm(input, self.gamma.val(), beta, self.epsilon)
    }
}

/// The configuration of an [`RmsNorm`], like `burn::nn::RmsNormConfig`.
#[derive(Config, Debug)]
pub struct RmsNormConfig {
    /// Length of the last axis.
    pub d_model: usize,
    /// Added to the mean square.
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

/// RMS norm over the last axis ([`rms_norm`](super::rms_norm)).
#[derive(Module, Debug)]
pub struct RmsNorm<B: Backend> {
    /// Factors, `[d_model]`.
    pub gamma: Param<Tensor<B, 1>>,
    /// Added to the mean square.
    pub epsilon: f64,
}

impl RmsNormConfig {
    /// A module with ones as gamma.
    ///
    /// # Panics
    /// If epsilon is not positive.
    pub fn init<B: Backend>(&self, device: &B::Device) -> RmsNorm<B> {
        assert!(self.epsilon > 0.0, "epsilon must be positive, got {}", self.epsilon);
        RmsNorm { gamma: Initializer::Ones.init([self.d_model], device), epsilon: self.epsilon }
    }
}

impl<B: SavesLess> RmsNorm<B> {
    /// Normalizes a tensor of any shape that ends in `d_model`.
    ///
    /// # Panics
    /// As [`rms_norm`](super::rms_norm).
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        super::rms_norm(x, self.gamma.val(), self.epsilon)
    }
}

/// The configuration of a [`Dropout`], like `burn::nn::DropoutConfig`.
#[derive(Config, Debug)]
pub struct DropoutConfig {
    /// The probability with which a number becomes zero.
    pub prob: f64,
}

/// Dropout ([`dropout`](super::dropout)) in training; no effect elsewhere.
#[derive(Module, Clone, Debug)]
pub struct Dropout {
    /// The probability with which a number becomes zero.
    pub prob: f64,
}

impl DropoutConfig {
    /// The module.
    ///
    /// # Panics
    /// If the probability is not at least 0 and less than 1.
    pub fn init(&self) -> Dropout {
        let prob = self.prob;
        assert!(
            (0.0..1.0).contains(&prob),
            "a dropout's probability is 0 or more and less than 1, got {prob}"
        );
        Dropout { prob }
    }
}

impl Dropout {
    /// Drops only on a backend with autodiff.
    ///
    /// # Panics
    /// As [`dropout`](super::dropout).
    pub fn forward<B: SavesLess, const D: usize>(&self, input: Tensor<B, D>) -> Tensor<B, D> {
        if !B::ad_enabled(&input.device()) || self.prob == 0.0 {
            return input;
        }
        super::dropout(input, self.prob)
    }
}
