//! Softmax, layer norm and attention.

use super::{cast, fail, linear, pointwise, run, view};
use crate::op::{Binary, Dtype, Norm, Op, Scalar, Softmax, Unary};
use crate::runtime::Tensor;
use burn_backend::ops::AttentionModuleOptions;

pub fn softmax(kind: Softmax, x: Tensor, axis: usize) -> Tensor {
    run(Op::Softmax { kind, axis }, [x])
}

/// A norm over the last axis.
pub fn norm(kind: Norm, x: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Tensor {
    run(Op::Norm { kind, epsilon: Scalar::from(epsilon) }, [x, gamma].into_iter().chain(beta))
}

/// [`norm`] as Burn names it.
pub fn layer_norm(x: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Tensor {
    norm(Norm::Layer, x, gamma, beta, epsilon)
}

/// `softmax(query keyᵗ scale) value` over the keys that count. A cap on the scores and a bias come between scale and
/// softmax, so that only with them the scores are scaled by an op of its own.
pub fn attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: AttentionModuleOptions,
) -> Tensor {
    let width = query.shape()[3] as f64;
    let mut scale = options.scale.unwrap_or_else(|| 1.0 / width.sqrt());
    let mut scores = linear::matmul(query, view::swap_dims(key, 2, 3));
    if options.softcap.is_some() || bias.is_some() {
        scores = pointwise::scalar(Binary::Mul, scores, scale);
        scale = 1.0;
    }
    if let Some(cap) = options.softcap {
        if cap <= 0.0 {
            fail(format!("burn-overcommit: softcap must be positive, got {cap}"));
        }
        let capped = pointwise::unary(Unary::Tanh, pointwise::scalar(Binary::Div, scores, cap));
        scores = pointwise::scalar(Binary::Mul, capped, cap);
    }
    if let Some(bias) = bias {
        scores = pointwise::binary(Binary::Add, scores, bias);
    }
    let op = Op::AttentionWeights { scale: Scalar::from(scale), causal: options.is_causal };
    let shape = *scores.shape();
    let mask = mask.map(|mask| view::expand(cast(mask, Dtype::Bool), shape.dims()));
    linear::matmul(run(op, [scores].into_iter().chain(mask)), value)
}
