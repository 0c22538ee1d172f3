//! Differentiable operations that save less for the backward pass than Burn's own, as functions, and as modules in [`nn`]
//! that take the place of Burn's (feature `autodiff`).
//!
//! Burn 0.21 differentiates softmax, the norms and attention piece by piece, and each piece saves what its gradient
//! reads. Here each is one node of Burn's graph, whose gradient is computed from its input or its output;
//! intermediate values are recomputed. Under `BalancedCheckpointing` the norms are memory-bound: their outputs are
//! not kept, but recomputed by the same op to the same bits. The backend [`MemorySaving`] does all this, and more, by
//! its type alone. [`checkpoint`] marks storages that are recomputed rather than moved when memory is short.
//!
//! | | Burn saves | here |
//! |---|---|---|
//! | [`softmax`], [`log_softmax`] | input-sized: 2 | the output |
//! | [`layer_norm`], [`rms_norm`] | 2 | the input |
//! | [`batch_norm`] in training | 3 | the input |
//! | [`attention`] | the inputs and three matrices of scores | the inputs, the output, a number for each query |
//! | [`dropout`] | a mask | a seed |
//!
//! ```
//! use burn::backend::Autodiff;
//! use burn::tensor::Tensor;
//! use burn_overcommit::autodiff;
//! use burn_overcommit::{Overcommit, OvercommitDevice};
//!
//! type B = Autodiff<Overcommit>;
//!
//! let device = OvercommitDevice::Host(0);
//! let x = Tensor::<B, 2>::from_floats([[1.0, 2.0], [3.0, 5.0]], &device).require_grad();
//! let gradients = autodiff::softmax(x.clone(), 1).slice([0..2, 0..1]).sum().backward();
//! let gradient = x.grad(&gradients).unwrap().into_data().to_vec::<f32>().unwrap();
//! assert!((gradient[0] + gradient[1]).abs() < 1e-6 && gradient[0] > 0.19);
//! ```

mod backend;
mod checkpoint;
mod formulas;
mod memory_saving;
mod names;
pub mod nn;
mod step;

pub use backend::{AttentionDropout, AttentionInput, SavesLess};
pub use checkpoint::{Outcome, checkpoint};
pub use memory_saving::MemorySaving;
#[allow(deprecated, reason = "the old name stays for a while")]
pub use memory_saving::Sparing;
pub use names::name_modules;

use burn::tensor::{Bool, Tensor, TensorPrimitive};
pub use burn_backend::ops::AttentionModuleOptions;

use crate::functions::fail;
use crate::op::{Norm, Softmax};

fn primitive<B: SavesLess, const D: usize>(x: Tensor<B, D>) -> burn_backend::tensor::FloatTensor<B> {
    x.into_primitive().tensor()
}

fn tensor<B: SavesLess, const D: usize>(x: burn_backend::tensor::FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(x))
}

/// Panics if the tensor has no such axis.
#[track_caller]
fn check_axis<const D: usize>(name: &str, axis: usize) {
    if axis >= D {
        fail(format!("burn-overcommit: {name} along axis {axis} of a tensor of {D} dimensions"));
    }
}

/// `e^x / sum(e^x)` along an axis. Saves its output.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Overcommit, OvercommitDevice, autodiff};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Overcommit, 2>::from_floats([[0.0, 0.0], [1.0, 1.0]], &device);
/// assert_eq!(autodiff::softmax(x, 1).into_data().to_vec::<f32>().unwrap(), [0.5; 4]);
/// ```
///
/// # Panics
/// If the tensor has no such axis, or does not fit the budget.
#[track_caller]
pub fn softmax<B: SavesLess, const D: usize>(x: Tensor<B, D>, axis: usize) -> Tensor<B, D> {
    check_axis::<D>("softmax", axis);
    tensor(B::normalised(Softmax::Plain, primitive(x), axis))
}

/// The logarithm of [`softmax`]. Saves its output.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Overcommit, OvercommitDevice, autodiff};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Overcommit, 2>::zeros([3, 4], &device);
/// let logarithms = autodiff::log_softmax(x, 1);
/// assert_eq!(logarithms.max().into_scalar(), -(4f32.ln()));
/// ```
///
/// # Panics
/// As [`softmax`].
#[track_caller]
pub fn log_softmax<B: SavesLess, const D: usize>(x: Tensor<B, D>, axis: usize) -> Tensor<B, D> {
    check_axis::<D>("log_softmax", axis);
    tensor(B::normalised(Softmax::Log, primitive(x), axis))
}

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis (Ba, Kiros and Hinton, "Layer
/// Normalization", 2016). Saves its input; mean and variance are recomputed.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use burn_overcommit::{Overcommit, OvercommitDevice, autodiff};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Overcommit, 2>::random([4, 8], Distribution::Default, &device);
/// let (gamma, beta) = (Tensor::ones([8], &device), Tensor::zeros([8], &device));
/// let y = autodiff::layer_norm(x, gamma, Some(beta), 1e-5);
/// assert!(y.mean().into_scalar().abs() < 1e-5);
/// ```
///
/// # Panics
/// If gamma or beta is not as long as the last axis, or what is needed does not fit the budget.
#[track_caller]
pub fn layer_norm<B: SavesLess, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    beta: Option<Tensor<B, 1>>,
    epsilon: f64,
) -> Tensor<B, D> {
    for weight in [&gamma].into_iter().chain(&beta) {
        check_width("layer_norm", x.dims(), weight.dims());
    }
    tensor(B::row_norm(Norm::Layer, primitive(x), primitive(gamma), beta.map(primitive), epsilon))
}

/// `x / sqrt(mean(x^2) + epsilon) * gamma` over the last axis (Zhang and Sennrich, "Root Mean Square Layer
/// Normalization", 2019). Saves its input.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Overcommit, OvercommitDevice, autodiff};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Overcommit, 2>::full([4, 8], 3.0, &device);
/// let y = autodiff::rms_norm(x, Tensor::ones([8], &device), 0.0);
/// assert_eq!(y.into_data().to_vec::<f32>().unwrap(), [1.0; 32]);
/// ```
///
/// # Panics
/// As [`layer_norm`].
#[track_caller]
pub fn rms_norm<B: SavesLess, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    epsilon: f64,
) -> Tensor<B, D> {
    check_width("rms_norm", x.dims(), gamma.dims());
    tensor(B::row_norm(Norm::Rms, primitive(x), primitive(gamma), None, epsilon))
}

#[track_caller]
fn check_width<const D: usize>(name: &str, x: [usize; D], weight: [usize; 1]) {
    if x[D - 1] != weight[0] {
        fail(format!("burn-overcommit: {name} of {x:?} by {} weights", weight[0]));
    }
}

/// Batch norm by the moments of this batch (Ioffe and Szegedy, "Batch Normalization", 2015). Returns the output, and
/// mean and variance of each channel (the second axis) without gradients. Saves its input and two numbers for each
/// channel.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use burn_overcommit::{Overcommit, OvercommitDevice, autodiff};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Overcommit, 4>::random([8, 3, 4, 4], Distribution::Default, &device);
/// let (gamma, beta) = (Tensor::ones([3], &device), Tensor::zeros([3], &device));
/// let (y, [mean, variance]) = autodiff::batch_norm(x, gamma, beta, 1e-5);
/// assert_eq!((y.dims(), mean.dims(), variance.dims()), ([8, 3, 4, 4], [3], [3]));
/// ```
///
/// # Panics
/// If the tensor has fewer than two dimensions, if there is not one gamma and beta a channel, or if what is needed does
/// not fit the budget.
#[track_caller]
pub fn batch_norm<B: SavesLess, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    beta: Tensor<B, 1>,
    epsilon: f64,
) -> (Tensor<B, D>, [Tensor<B, 1>; 2]) {
    if D < 2 || [gamma.dims(), beta.dims()] != [[x.dims()[1]]; 2] {
        let (x, weights) = (x.dims(), [gamma.dims()[0], beta.dims()[0]]);
        fail(format!("burn-overcommit: batch_norm of {x:?} by {weights:?} weights"));
    }
    let channels = [x.dims()[1]];
    let [out, mean, variance] =
        B::trained_batch_norm(primitive(x), primitive(gamma), primitive(beta), epsilon);
    (tensor(out), [mean, variance].map(|moment| tensor::<B, D>(moment).reshape(channels)))
}

/// `softmax(query keyᵗ scale) value`, with all that Burn's `attention` can do: from `query[batch, heads, queries, width]`,
/// `key[batch, heads, keys, width]` and `value[batch, heads, keys, any]` to `[batch, heads, queries, any]`. `mask` is true where
/// a key does not count, and expands to `[batch, heads, queries, keys]`, as `bias` does. A query for which no key counts gives zeros.
///
/// Without bias and cap, for 16 queries or more and rows of at most 128 in 16 or 32 bits, nothing of the size of the scores is made:
/// they go by in tiles (Dao et al., "FlashAttention", 2022). Saved are the inputs, the output, and a number for each query.
/// Otherwise the inputs are saved, and the backward pass recomputes the scores, for which it needs two matrices (Rabe and Staats,
/// "Self-attention does not need O(n^2) memory", 2021).
///
/// ```
/// use burn::backend::Autodiff;
/// use burn::tensor::{Distribution, Tensor};
/// use burn_overcommit::autodiff::{AttentionModuleOptions, attention};
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Autodiff<Overcommit>, 4>::random([1, 2, 20, 8], Distribution::Default, &device).require_grad();
/// let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
/// let out = attention(x.clone(), x.clone(), x.clone(), None, None, options, None);
/// assert_eq!(out.dims(), [1, 2, 20, 8]);
/// assert_eq!(x.grad(&out.sum().backward()).unwrap().dims(), [1, 2, 20, 8]);
/// ```
///
/// # Panics
/// If shapes do not fit, if a cap is not positive, or if what is needed does not fit the budget.
#[track_caller]
pub fn attention<B: SavesLess>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    mask: Option<Tensor<B, 4, Bool>>,
    bias: Option<Tensor<B, 4>>,
    options: AttentionModuleOptions,
    dropout: Option<AttentionDropout>,
) -> Tensor<B, 4> {
    tensor(B::attended(AttentionInput {
        query: primitive(query),
        key: primitive(key),
        value: primitive(value),
        mask: mask.map(Tensor::into_primitive),
        bias: bias.map(primitive),
        options,
        dropout,
    }))
}

/// Each number becomes zero with a probability; the others are scaled so that the mean stays (Srivastava et al.,
/// "Dropout", 2014). Saves the seed of its random numbers, which are those that Burn's module would draw.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Overcommit, OvercommitDevice, autodiff};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Overcommit, 1>::ones([1000], &device);
/// let kept = autodiff::dropout(x, 0.5).greater_elem(0.0).int().sum().into_scalar();
/// assert!((400..600).contains(&kept));
/// ```
///
/// # Panics
/// If the probability is not at least 0 and less than 1, or what is needed does not fit the budget.
#[track_caller]
pub fn dropout<B: SavesLess, const D: usize>(x: Tensor<B, D>, probability: f64) -> Tensor<B, D> {
    if !(0.0..1.0).contains(&probability) {
        fail(format!("burn-overcommit: dropout with a probability of {probability}"));
    }
    tensor(B::dropped(primitive(x), probability))
}
