//! Gradients of operations that Burn differentiates piece by piece, computed from the inputs or the output of the
//! forward pass alone.

use super::{fail, pointwise, reduce, run, view};
use crate::op::{Binary, Norm, Op, Pool2d, Reduce, Resize, Scalar, Shape, Softmax, Unary};
use crate::runtime::Tensor;

/// The gradient of a softmax's input, computed from its output.
#[track_caller]
pub fn softmax(kind: Softmax, output: Tensor, gradient: Tensor, axis: usize, scale: f64) -> Tensor {
    run(Op::SoftmaxBackward { kind, axis, scale: Scalar::from(scale) }, [output, gradient])
}

/// The gradients of a norm's input and, if requested, of gamma and of a layer norm's beta.
#[track_caller]
pub fn norm(
    kind: Norm,
    x: Tensor,
    gamma: Tensor,
    gradient: Tensor,
    epsilon: f64,
    weights: bool,
) -> (Tensor, Option<Tensor>, Option<Tensor>) {
    let shape = *x.shape();
    let width = shape[shape.rank() - 1];
    let flat = |x| view::reshape_to(x, &[shape.count() / width.max(1), width]);
    let op = Op::NormBackward { kind, epsilon: Scalar::from(epsilon), weights };
    let inputs = [flat(x), gamma, flat(gradient)];
    if !weights {
        return (view::reshape(run(op, inputs), shape), None, None);
    }
    let [of_x, sums] = super::ok(crate::runtime::run_pair(op, inputs));
    let part = |n| view::reshape_to(view::narrow(sums.clone(), 0, n, 1), &[width]);
    (view::reshape(of_x, shape), Some(part(0)), (kind == Norm::Layer).then(|| part(1)))
}

/// Mean and variance of each channel (the second axis) for batch norm, `[1, channels, 1, ..]`.
#[track_caller]
pub fn channel_moments(x: Tensor) -> (Tensor, Tensor) {
    let mean = over_channels(Reduce::Mean, x.clone());
    let from_mean = pointwise::binary(Binary::Sub, x, mean.clone());
    (mean, over_channels(Reduce::Mean, pointwise::unary(Unary::Square, from_mean)))
}

/// A reduction of all axes but the second, the last ones first.
#[track_caller]
fn over_channels(kind: Reduce, x: Tensor) -> Tensor {
    let shape = *x.shape();
    let inner = shape.dims()[2..].iter().product();
    // Several short axes become one long axis if that is a view.
    let flat = x.layout().reshape(Shape::new(&[shape[0], shape[1], inner]));
    let x = match flat {
        Some(flat) => x.with_layout(flat),
        None => x,
    };
    let reduced = (2..x.shape().rank()).rev().fold(x, |x, axis| reduce::dim(kind, x, axis));
    let channels = (2..shape.rank()).fold(shape.with(0, 1), |shape, axis| shape.with(axis, 1));
    view::reshape(reduce::dim(kind, reduced, 0), channels)
}

/// One number for each channel, in a shape that broadcasts to a tensor of `rank` dimensions.
#[track_caller]
fn by_channel(x: Tensor, rank: usize) -> Tensor {
    let mut sizes = vec![1; rank];
    sizes[1] = x.shape().count();
    view::reshape_to(x, &sizes)
}

/// `(x - mean) / deviation * gamma + beta`, channel by channel.
#[track_caller]
pub fn batch_norm(x: Tensor, mean: Tensor, deviation: Tensor, gamma: Tensor, beta: Tensor) -> Tensor {
    let rank = x.shape().rank();
    let scale = pointwise::binary(Binary::Div, by_channel(gamma, rank), deviation);
    let from_mean = pointwise::binary(Binary::Sub, x, mean);
    let scaled = pointwise::binary(Binary::Mul, from_mean, scale);
    pointwise::binary(Binary::Add, scaled, by_channel(beta, rank))
}

/// The gradients of x, gamma and beta, mean and deviation being those of x.
#[track_caller]
pub fn batch_norm_backward(
    x: Tensor,
    mean: Tensor,
    deviation: Tensor,
    gamma: Tensor,
    gradient: Tensor,
) -> [Tensor; 3] {
    let (rank, channels) = (x.shape().rank(), gamma.shape().count());
    let count = (x.shape().count() / channels.max(1)) as f64;
    let scale = pointwise::binary(Binary::Div, by_channel(gamma, rank), deviation.clone());
    let from_mean = pointwise::binary(Binary::Sub, x, mean);
    let normal = pointwise::binary(Binary::Div, from_mean, deviation);
    let product = pointwise::binary(Binary::Mul, normal.clone(), gradient.clone());
    let of_gamma = over_channels(Reduce::Sum, product);
    let of_beta = over_channels(Reduce::Sum, gradient.clone());
    let mean_of = |sum: &Tensor| pointwise::scalar(Binary::Div, sum.clone(), count);
    let along = pointwise::binary(Binary::Mul, normal, mean_of(&of_gamma));
    let across = pointwise::binary(Binary::Sub, gradient, along);
    let centred = pointwise::binary(Binary::Sub, across, mean_of(&of_beta));
    let of_x = pointwise::binary(Binary::Mul, centred, scale);
    [of_x, view::reshape_to(of_gamma, &[channels]), view::reshape_to(of_beta, &[channels])]
}

/// The gradient of a tensor that was broadcast: the sum over the broadcast axes.
#[track_caller]
pub fn sum_to(gradient: Tensor, shape: &Shape) -> Tensor {
    let spread = (0..shape.rank()).filter(|&axis| gradient.shape()[axis] != shape[axis]).collect::<Vec<_>>();
    spread.into_iter().fold(gradient, |gradient, axis| reduce::dim(Reduce::Sum, gradient, axis))
}

/// The gradient of the input of an elementwise function, computed from its output.
#[track_caller]
pub fn of_output(kind: Unary, output: Tensor, gradient: Tensor) -> Tensor {
    let times = |a, b| pointwise::binary(Binary::Mul, a, b);
    match kind {
        Unary::Relu => pointwise::binary(Binary::ReluBackward, output, gradient),
        Unary::Sigmoid => pointwise::binary(Binary::SigmoidBackward, output, gradient),
        Unary::Exp => times(gradient, output),
        Unary::Sqrt => pointwise::binary(Binary::Div, gradient, pointwise::scalar(Binary::Mul, output, 2.0)),
        Unary::Tanh => {
            let falloff = times(pointwise::unary(Unary::Square, output), gradient.clone());
            pointwise::binary(Binary::Sub, gradient, falloff)
        }
        other => {
            fail(format!("burn-overcommit: the gradient of {} is not known by its output", other.name()))
        }
    }
}

/// The gradient of an image of this size.
#[track_caller]
pub fn avg_pool2d(gradient: Tensor, pool: Pool2d, size: [usize; 2]) -> Tensor {
    run(Op::AvgPool2dBackward { pool, size }, [gradient])
}

/// The gradient of an image of this size.
#[track_caller]
pub fn adaptive_avg_pool2d(gradient: Tensor, size: [usize; 2]) -> Tensor {
    run(Op::AdaptiveAvgPool2dBackward { size }, [gradient])
}

/// The gradient of an image of this size, whose maxima were at the indices.
#[track_caller]
pub fn max_pool2d(gradient: Tensor, indices: Tensor, pool: Pool2d, size: [usize; 2]) -> Tensor {
    run(Op::MaxPool2dBackward { pool, size }, [gradient, indices])
}

/// The gradient of an image of this size.
#[track_caller]
pub fn interpolate(gradient: Tensor, resize: Resize, size: [usize; 2]) -> Tensor {
    run(Op::InterpolateBackward { resize, size }, [gradient])
}
