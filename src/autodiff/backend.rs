use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn_backend::ops::AttentionModuleOptions;
use burn_backend::tensor::{BoolTensor, FloatTensor};

use super::formulas::{Attending, BatchNorm, Normalised, RowNorm};
use super::step::{Tracked, apply, apply_made};
use crate::backend::{FloatElement, IntElement, IntoCore, Overcommit};
use crate::functions::attention::{Attention, Dropout, Dropped};
use crate::functions::pointwise::{scalar, unary};
use crate::functions::{gradient, norm, ok};
use crate::op::{Binary, Norm, Softmax, Unary};
use crate::runtime::{self, Tensor};

/// The inputs of attention, as primitives of a backend.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use burn_overcommit::autodiff::{AttentionDropout, AttentionInput, AttentionModuleOptions, SavesLess};
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// let device = OvercommitDevice::Host(0);
/// let x = || Tensor::<Overcommit, 4>::random([1, 2, 8, 4], Distribution::Default, &device).into_primitive().tensor();
/// let weighted = Overcommit::<f32, i32>::attended(AttentionInput {
///     query: x(),
///     key: x(),
///     value: x(),
///     mask: None,
///     bias: None,
///     options: AttentionModuleOptions { is_causal: true, ..Default::default() },
///     dropout: Some(AttentionDropout::Weights(0.1)),
/// });
/// assert_eq!(weighted.layout().shape().dims(), [1, 2, 8, 4]);
/// ```
#[derive(Debug)]
pub struct AttentionInput<B: Backend> {
    /// `[batch, heads, queries, width]`.
    pub query: FloatTensor<B>,
    /// `[batch, heads, keys, width]`.
    pub key: FloatTensor<B>,
    /// `[batch, heads, keys, any]`.
    pub value: FloatTensor<B>,
    /// True where a key does not count; expands to `[batch, heads, queries, keys]`.
    pub mask: Option<BoolTensor<B>>,
    /// Added to the scores; expands to their shape.
    pub bias: Option<FloatTensor<B>>,
    /// Scale, cap and causality.
    pub options: AttentionModuleOptions,
    /// What is dropped.
    pub dropout: Option<AttentionDropout>,
}

/// What becomes zero in an attention, and how likely.
/// See [`AttentionInput`] for an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttentionDropout {
    /// Scores, before masks, as in Burn's `MultiHeadAttention`.
    Scores(f64),
    /// Weights, as in Vaswani et al., "Attention Is All You Need" (2017), and most that came after.
    Weights(f64),
}

impl AttentionDropout {
    #[track_caller]
    fn draw(self, query: &Tensor) -> Dropped {
        match self {
            AttentionDropout::Scores(probability) => Dropped::Scores(draw(query, probability)),
            AttentionDropout::Weights(probability) => Dropped::Weights(draw(query, probability)),
        }
    }
}

/// Backends that the functions and modules of [`autodiff`](super) work on: [`Overcommit`](crate::Overcommit), and
/// Burn's autodiff over it.
///
/// The methods take primitives. The functions of the module forward to them and describe them.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::autodiff::{SavesLess, softmax};
///
/// /// Works with and without gradients.
/// fn most_likely<B: SavesLess>(scores: Tensor<B, 2>) -> Tensor<B, 2> {
///     softmax(scores, 1).max_dim(1)
/// }
/// ```
pub trait SavesLess: Backend<IntTensorPrimitive = Tensor, BoolTensorPrimitive = Tensor> {
    /// The tensor under a primitive.
    fn plain(x: &FloatTensor<Self>) -> &Tensor;
    /// Softmax or its logarithm along an axis.
    #[track_caller]
    fn normalised(kind: Softmax, x: FloatTensor<Self>, axis: usize) -> FloatTensor<Self>;
    /// Layer norm or RMS norm over the last axis.
    #[track_caller]
    fn row_norm(
        kind: Norm,
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> FloatTensor<Self>;
    /// Batch norm by the moments of the batch. Returns the output, and mean and variance, `[1, channels, 1, ..]`,
    /// without gradients.
    #[track_caller]
    fn trained_batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> [FloatTensor<Self>; 3];
    /// Scaled dot-product attention.
    #[track_caller]
    fn attended(input: AttentionInput<Self>) -> FloatTensor<Self>;
    /// Dropout, also outside of training.
    #[track_caller]
    fn dropped(x: FloatTensor<Self>, probability: f64) -> FloatTensor<Self>;
}

/// A dropout with a new seed, drawn as Burn's module draws it.
#[track_caller]
fn draw(x: &Tensor, probability: f64) -> Dropout {
    let seed = ok(runtime::next_seed(&x.device()));
    Dropout { probability, seed }
}

impl<F: FloatElement, I: IntElement> SavesLess for Overcommit<F, I> {
    fn plain(x: &Tensor) -> &Tensor {
        x
    }

    #[track_caller]
    fn normalised(kind: Softmax, x: Tensor, axis: usize) -> Tensor {
        norm::softmax(kind, x, axis)
    }

    #[track_caller]
    fn row_norm(kind: Norm, x: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Tensor {
        norm::norm(kind, x, gamma, beta, epsilon)
    }

    #[track_caller]
    fn trained_batch_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: f64) -> [Tensor; 3] {
        let (mean, variance) = gradient::channel_moments(x.clone());
        let deviation = deviation(variance.clone(), epsilon);
        [gradient::batch_norm(x, mean.clone(), deviation, gamma, beta), mean, variance]
    }

    #[track_caller]
    fn attended(input: AttentionInput<Self>) -> Tensor {
        let AttentionInput { query, key, value, mask, bias, options, dropout } = input;
        let dropout = dropout.map(|dropout| dropout.draw(&query));
        Attention { mask, options: options.into_core(), dropout }.forward([query, key, value], bias).0
    }

    #[track_caller]
    fn dropped(x: Tensor, probability: f64) -> Tensor {
        draw(&x, probability).apply(x)
    }
}

#[track_caller]
fn deviation(variance: Tensor, epsilon: f64) -> Tensor {
    unary(Unary::Sqrt, scalar(Binary::Add, variance, epsilon))
}

impl<F: FloatElement, I: IntElement, C: CheckpointStrategy> SavesLess for Autodiff<Overcommit<F, I>, C> {
    fn plain(x: &Tracked<F, I>) -> &Tensor {
        &x.primitive
    }

    #[track_caller]
    fn normalised(kind: Softmax, x: Tracked<F, I>, axis: usize) -> Tracked<F, I> {
        apply::<F, I, C, _, 1>(Normalised { kind, axis }, [x])
    }

    #[track_caller]
    fn row_norm(
        kind: Norm,
        x: Tracked<F, I>,
        gamma: Tracked<F, I>,
        beta: Option<Tracked<F, I>>,
        epsilon: f64,
    ) -> Tracked<F, I> {
        let formula = RowNorm { kind, epsilon };
        match beta {
            Some(beta) => apply::<F, I, C, _, 3>(formula, [x, gamma, beta]),
            None => apply::<F, I, C, _, 2>(formula, [x, gamma]),
        }
    }

    #[track_caller]
    fn trained_batch_norm(
        x: Tracked<F, I>,
        gamma: Tracked<F, I>,
        beta: Tracked<F, I>,
        epsilon: f64,
    ) -> [Tracked<F, I>; 3] {
        let (mean, variance) = gradient::channel_moments(x.primitive.clone());
        let deviation = deviation(variance.clone(), epsilon);
        let formula = BatchNorm { mean: mean.clone(), deviation };
        let out = apply::<F, I, C, _, 3>(formula, [x, gamma, beta]);
        [out, Self::from_inner(mean), Self::from_inner(variance)]
    }

    #[track_caller]
    fn attended(input: AttentionInput<Self>) -> Tracked<F, I> {
        let AttentionInput { query, key, value, mask, bias, options, dropout } = input;
        let dropout = dropout.map(|dropout| dropout.draw(&query.primitive));
        let attention = Attention { mask, options: options.into_core(), dropout };
        let inputs = [&query, &key, &value].map(|x| x.primitive.clone());
        let (out, attended) = attention.forward(inputs, bias.as_ref().map(|bias| bias.primitive.clone()));
        let formula = Attending { attention, attended };
        match bias {
            Some(bias) => apply_made::<F, I, C, _, 4>(formula, [query, key, value, bias], out),
            None => apply_made::<F, I, C, _, 3>(formula, [query, key, value], out),
        }
    }

    #[track_caller]
    fn dropped(x: Tracked<F, I>, probability: f64) -> Tracked<F, I> {
        let formula = draw(&x.primitive, probability);
        apply::<F, I, C, _, 1>(formula, [x])
    }
}
