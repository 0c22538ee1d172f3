//! Convolutions and pools.
//!
//! Convolutions of one and two dimensions are those of three with unit dimensions in front, which are views.

use super::{convert, create, ok, pointwise, reduce, run, view};
use crate::op::{Binary, Conv, Op, Pool2d, Reduce, Shape};
use crate::runtime::{self, Tensor};
use burn_backend::ops::{ConvOptions, ConvTransposeOptions};
use burn_backend::{DType, Slice};

/// `values` for the innermost dimensions, `missing` for the others.
#[track_caller]
fn spatial<const N: usize>(values: [usize; N], missing: usize) -> [usize; 3] {
    let mut all = [missing; 3];
    all[3 - N..].copy_from_slice(&values);
    all
}

impl<const N: usize> From<ConvOptions<N>> for Conv {
    fn from(options: ConvOptions<N>) -> Self {
        Conv {
            stride: spatial(options.stride, 1),
            padding: spatial(options.padding, 0),
            dilation: spatial(options.dilation, 1),
            groups: options.groups,
        }
    }
}

/// The convolution whose gradient a transposed one is.
impl<const N: usize> From<&ConvTransposeOptions<N>> for Conv {
    fn from(options: &ConvTransposeOptions<N>) -> Self {
        Conv {
            stride: spatial(options.stride, 1),
            padding: spatial(options.padding, 0),
            dilation: spatial(options.dilation, 1),
            groups: options.groups,
        }
    }
}

/// `[a, b, spatial..]` as `[a, b, d, h, w]`.
#[track_caller]
fn deepened(x: Tensor) -> Tensor {
    let dims = x.shape().dims();
    let missing = 5_usize.saturating_sub(dims.len());
    let dims = [&dims[..2], &vec![1; missing], &dims[2..]].concat();
    view::reshape_to(x, &dims)
}

/// The reverse of [`deepened`], for `N` spatial dimensions.
#[track_caller]
fn flattened<const N: usize>(x: Tensor) -> Tensor {
    let dims = x.shape().dims();
    let dims = [&dims[..2], &dims[5 - N..]].concat();
    view::reshape_to(x, &dims)
}

/// Depth, height and width of `[a, b, d, h, w]`.
#[track_caller]
fn space(x: &Tensor) -> [usize; 3] {
    [2, 3, 4].map(|axis| x.shape()[axis])
}

#[track_caller]
pub fn conv<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: ConvOptions<N>,
) -> Tensor {
    let (op, [x, weight]) = (Op::Conv(options.into()), [x, weight].map(deepened));
    flattened::<N>(run(op, [x, weight].into_iter().chain(bias)))
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn conv_x_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    options: ConvOptions<N>,
) -> Tensor {
    let [x, weight, gradient] = [x, weight, gradient].map(deepened);
    let size = space(&x);
    drop(x);
    flattened::<N>(run(Op::ConvBackwardInput { conv: options.into(), size }, [weight, gradient]))
}

/// Only the shape of `weight` is used.
#[track_caller]
pub fn conv_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    options: ConvOptions<N>,
) -> Tensor {
    let [x, weight, gradient] = [x, weight, gradient].map(deepened);
    let kernel = space(&weight);
    drop(weight);
    flattened::<N>(run(Op::ConvBackwardWeight { conv: options.into(), kernel }, [x, gradient]))
}

/// Sums over each image and then over images, so that the gradient needs no copy in another order.
#[track_caller]
pub fn conv_bias_backward(gradient: Tensor) -> Tensor {
    let dims = gradient.shape().dims();
    let (images, channels) = (dims[0], dims[1]);
    let pixels = dims[2..].iter().product();
    let gradient = view::reshape_to(gradient, &[images, channels, pixels]);
    let sums = reduce::dim(Reduce::Sum, reduce::dim(Reduce::Sum, gradient, 2), 0);
    view::reshape_to(sums, &[channels])
}

/// A transposed convolution is the gradient of a convolution whose output is `x`.
#[track_caller]
pub fn conv_transpose<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: ConvTransposeOptions<N>,
) -> Tensor {
    let (conv, padding_out) = (Conv::from(&options), spatial(options.padding_out, 0));
    let [x, weight] = [x, weight].map(deepened);
    let (input, kernel) = (space(&x), space(&weight));
    let size = std::array::from_fn(|k| {
        let reach = conv.dilation[k] * (kernel[k].max(1) - 1) + 1;
        let full = input[k].saturating_sub(1) * conv.stride[k] + reach + padding_out[k];
        full.saturating_sub(2 * conv.padding[k])
    });
    let x = padded(x, conv.output_size(size, kernel));
    let out = run(Op::ConvBackwardInput { conv, size }, [weight, x]);
    flattened::<N>(match bias {
        Some(bias) => {
            let channels = bias.shape().count();
            pointwise::binary(Binary::Add, out, view::reshape_to(bias, &[channels, 1, 1, 1]))
        }
        None => out,
    })
}

/// The convolution of the gradient, without what output padding adds beyond the forward's input.
#[track_caller]
pub fn conv_transpose_x_backward<const N: usize>(
    weight: Tensor,
    gradient: Tensor,
    options: ConvTransposeOptions<N>,
) -> Tensor {
    let (conv, padding_out) = (Conv::from(&options), spatial(options.padding_out, 0));
    let [weight, gradient] = [weight, gradient].map(deepened);
    let unpadded = std::array::from_fn(|k| space(&gradient)[k].saturating_sub(padding_out[k]));
    let size = conv.output_size(unpadded, space(&weight));
    let whole = run(Op::Conv(conv), [gradient, weight]);
    flattened::<N>((0..3).fold(whole, |x, k| view::narrow(x, k + 2, 0, size[k])))
}

/// In a transposed convolution input and gradient change places.
#[track_caller]
pub fn conv_transpose_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    options: ConvTransposeOptions<N>,
) -> Tensor {
    let conv = Conv::from(&options);
    let [x, weight, gradient] = [x, weight, gradient].map(deepened);
    let kernel = space(&weight);
    let x = padded(x, conv.output_size(space(&gradient), kernel));
    flattened::<N>(run(Op::ConvBackwardWeight { conv, kernel }, [gradient, x]))
}

/// `x` with zeros after its elements up to `size`: output padding of a stride or more reaches beyond `x`.
#[track_caller]
fn padded(x: Tensor, size: [usize; 3]) -> Tensor {
    if space(&x) == size {
        return x;
    }
    let dims = x.shape().dims();
    let slices: Vec<Slice> = dims.iter().map(|&dim| Slice::from(0..dim)).collect();
    let shape = Shape::new(&[&dims[..2], &size].concat());
    let zeros = create::zeros(shape, &x.device(), x.dtype());
    view::slice_assign(zeros, &slices, x)
}

#[track_caller]
pub fn max_pool2d(x: Tensor, pool: Pool2d) -> Tensor {
    run(Op::MaxPool2d { pool, indices: None }, [x])
}

#[track_caller]
pub fn max_pool2d_with_indices(x: Tensor, pool: Pool2d, dtype: impl Into<DType>) -> [Tensor; 2] {
    let indices = Some(convert::dtype(dtype));
    ok(runtime::run_pair(Op::MaxPool2d { pool, indices }, [x]))
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn max_pool2d_backward(x: Tensor, gradient: Tensor, indices: Tensor, pool: Pool2d) -> Tensor {
    let size = convert::plane(x.layout());
    drop(x);
    run(Op::MaxPool2dBackward { pool, size }, [gradient, indices])
}

#[track_caller]
pub fn avg_pool2d(x: Tensor, pool: Pool2d) -> Tensor {
    run(Op::AvgPool2d(pool), [x])
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn avg_pool2d_backward(x: Tensor, gradient: Tensor, pool: Pool2d) -> Tensor {
    let size = convert::plane(x.layout());
    drop(x);
    run(Op::AvgPool2dBackward { pool, size }, [gradient])
}

#[track_caller]
pub fn adaptive_avg_pool2d(x: Tensor, size: [usize; 2]) -> Tensor {
    run(Op::AdaptiveAvgPool2d { size }, [x])
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn adaptive_avg_pool2d_backward(x: Tensor, gradient: Tensor) -> Tensor {
    let size = convert::plane(x.layout());
    drop(x);
    run(Op::AdaptiveAvgPool2dBackward { size }, [gradient])
}
