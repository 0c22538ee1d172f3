//! Softmax, layer norm and attention.

use super::{cast, create, fail, linear, pointwise, run, view};
use crate::op::{Binary, Dtype, Norm, Op, Scalar, Softmax, Unary};
use crate::runtime::Tensor;
use burn_backend::ops::AttentionModuleOptions;

#[track_caller]
pub fn softmax(kind: Softmax, x: Tensor, axis: usize) -> Tensor {
    run(Op::Softmax { kind, axis }, [x])
}

/// A norm over the last axis.
#[track_caller]
pub fn norm(kind: Norm, x: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Tensor {
    run(Op::Norm { kind, epsilon: Scalar::from(epsilon) }, [x, gamma].into_iter().chain(beta))
}

/// [`norm`] as Burn names it.
#[track_caller]
pub fn layer_norm(x: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Tensor {
    norm(Norm::Layer, x, gamma, beta, epsilon)
}

/// `softmax(query keyᵗ scale) value` over the keys that count.
#[track_caller]
pub fn attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: AttentionModuleOptions,
) -> Tensor {
    linear::matmul(attention_weights(query, key, mask, bias, options, None).0, value)
}

/// Dropout of scores: some become zero, and the others are scaled so that their mean stays. It depends on the seed
/// alone.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The probability with which a number becomes zero.
    pub probability: f64,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Dropout {
    /// Applies the dropout with the same numbers as Burn's module.
    #[track_caller]
    pub fn apply(self, x: Tensor) -> Tensor {
        let keep = 1.0 - self.probability;
        let kept = create::kept(*x.shape(), &x.device(), x.dtype(), keep, self.seed);
        pointwise::scalar(Binary::Mul, pointwise::binary(Binary::Mul, x, kept), 1.0 / keep)
    }
}

/// Factor of the scores; without one, the root of the queries' width divides them.
#[track_caller]
pub fn attention_scale(query: &Tensor, options: &AttentionModuleOptions) -> f64 {
    options.scale.unwrap_or_else(|| 1.0 / (query.shape()[3] as f64).sqrt())
}

/// The weights, and where scores are capped, the hyperbolic tangents that they were capped by. A cap, a bias and a
/// dropout come between scale and softmax, so that only with them the scores are scaled by an op of its own.
#[track_caller]
pub fn attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: AttentionModuleOptions,
    dropout: Option<Dropout>,
) -> (Tensor, Option<Tensor>) {
    let mut scale = attention_scale(&query, &options);
    let mut scores = linear::matmul(query, view::swap_dims(key, 2, 3));
    if options.softcap.is_some() || bias.is_some() || dropout.is_some() {
        scores = pointwise::scalar(Binary::Mul, scores, scale);
        scale = 1.0;
    }
    if let Some(dropout) = dropout {
        scores = dropout.apply(scores);
    }
    let mut tangents = None;
    if let Some(cap) = options.softcap {
        if cap <= 0.0 {
            fail(format!("burn-overcommit: softcap must be positive, got {cap}"));
        }
        let capped = pointwise::unary(Unary::Tanh, pointwise::scalar(Binary::Div, scores, cap));
        tangents = Some(capped.clone());
        scores = pointwise::scalar(Binary::Mul, capped, cap);
    }
    if let Some(bias) = bias {
        scores = pointwise::binary(Binary::Add, scores, bias);
    }
    let op = Op::AttentionWeights { scale: Scalar::from(scale), causal: options.is_causal };
    let shape = *scores.shape();
    let mask = mask.map(|mask| view::expand(cast(mask, Dtype::Bool), shape.dims()));
    (run(op, [scores].into_iter().chain(mask)), tangents)
}
