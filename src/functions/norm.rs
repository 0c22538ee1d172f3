//! Softmax and layer norm.

use super::run;
use crate::op::{Norm, Op, Scalar, Softmax};
use crate::runtime::Tensor;

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
