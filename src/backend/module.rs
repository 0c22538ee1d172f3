//! Convolutions and pools.

use super::{convert, create, ok, pointwise, reduce, run, view};
use crate::op::{Binary, Conv2d, Op, Pool2d, Reduce, Shape};
use crate::runtime::{self, Tensor};
use burn_backend::ops::{ConvOptions, ConvTransposeOptions};
use burn_backend::{DType, Slice};

impl From<ConvOptions<2>> for Conv2d {
    fn from(options: ConvOptions<2>) -> Self {
        Conv2d {
            stride: options.stride,
            padding: options.padding,
            dilation: options.dilation,
            groups: options.groups,
        }
    }
}

/// The same convolution of images of width one.
fn flat(options: ConvOptions<1>) -> Conv2d {
    Conv2d {
        stride: [options.stride[0], 1],
        padding: [options.padding[0], 0],
        dilation: [options.dilation[0], 1],
        groups: options.groups,
    }
}

pub fn conv2d(x: Tensor, weight: Tensor, bias: Option<Tensor>, conv: Conv2d) -> Tensor {
    match bias {
        Some(bias) => run(Op::Conv2d(conv), [x, weight, bias]),
        None => run(Op::Conv2d(conv), [x, weight]),
    }
}

/// `x` gives its shape only.
pub fn conv2d_x_backward(x: Tensor, weight: Tensor, gradient: Tensor, conv: Conv2d) -> Tensor {
    let size = convert::plane(x.layout());
    drop(x);
    run(Op::Conv2dBackwardInput { conv, size }, [weight, gradient])
}

/// `weight` gives its shape only.
pub fn conv2d_weight_backward(x: Tensor, weight: Tensor, gradient: Tensor, conv: Conv2d) -> Tensor {
    let kernel = convert::plane(weight.layout());
    drop(weight);
    run(Op::Conv2dBackwardWeight { conv, kernel }, [x, gradient])
}

/// Sums over each image and then over images, so that the gradient needs no copy in another order.
pub fn conv_bias_backward(gradient: Tensor) -> Tensor {
    let dims = gradient.shape().dims();
    let (images, channels) = (dims[0], dims[1]);
    let pixels = dims[2..].iter().product();
    let gradient = view::reshape_to(gradient, &[images, channels, pixels]);
    let sums = reduce::dim(Reduce::Sum, reduce::dim(Reduce::Sum, gradient, 2), 0);
    view::reshape_to(sums, &[channels])
}

pub fn conv1d_x_backward(x: Tensor, weight: Tensor, gradient: Tensor, options: ConvOptions<1>) -> Tensor {
    let [x, weight, gradient] = [x, weight, gradient].map(column);
    row(conv2d_x_backward(x, weight, gradient, flat(options)))
}

pub fn conv1d_weight_backward(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    options: ConvOptions<1>,
) -> Tensor {
    let [x, weight, gradient] = [x, weight, gradient].map(column);
    row(conv2d_weight_backward(x, weight, gradient, flat(options)))
}

/// `[a, b, c]` as `[a, b, c, 1]`.
fn column(x: Tensor) -> Tensor {
    let dims = [x.shape().dims(), &[1]].concat();
    view::reshape_to(x, &dims)
}

/// The reverse of [`column`].
fn row(x: Tensor) -> Tensor {
    let dims = x.shape().dims()[..3].to_vec();
    view::reshape_to(x, &dims)
}

/// A transposed convolution is the gradient of a convolution whose output is `x`.
pub fn conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: ConvTransposeOptions<2>,
) -> Tensor {
    let (input, kernel) = (convert::plane(x.layout()), convert::plane(weight.layout()));
    let conv = transposed(&options);
    let size = std::array::from_fn(|k| {
        let reach = options.dilation[k] * (kernel[k].max(1) - 1) + 1;
        let full = input[k].saturating_sub(1) * options.stride[k] + reach + options.padding_out[k];
        full.saturating_sub(2 * options.padding[k])
    });
    let x = padded(x, conv.output_size(size, kernel));
    let out = run(Op::Conv2dBackwardInput { conv, size }, [weight, x]);
    match bias {
        Some(bias) => {
            let channels = bias.shape().count();
            pointwise::binary(Binary::Add, out, view::reshape_to(bias, &[channels, 1, 1]))
        }
        None => out,
    }
}

/// In a transposed convolution input and gradient change places.
pub fn conv_transpose2d_weight_backward(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    options: ConvTransposeOptions<2>,
) -> Tensor {
    let conv = transposed(&options);
    let size = conv.output_size(convert::plane(gradient.layout()), convert::plane(weight.layout()));
    conv2d_weight_backward(gradient, weight, padded(x, size), conv)
}

/// `x` with zeros after its rows and columns up to `size`: output padding of a stride or more reaches beyond `x`.
fn padded(x: Tensor, size: [usize; 2]) -> Tensor {
    if convert::plane(x.layout()) == size {
        return x;
    }
    let dims = x.shape().dims();
    let slices: Vec<Slice> = dims.iter().map(|&dim| Slice::from(0..dim)).collect();
    let shape = Shape::new(&[dims[0], dims[1], size[0], size[1]]);
    let zeros = create::zeros(shape, &x.device(), x.dtype());
    view::slice_assign(zeros, &slices, x)
}

fn transposed(options: &ConvTransposeOptions<2>) -> Conv2d {
    Conv2d {
        stride: options.stride,
        padding: options.padding,
        dilation: options.dilation,
        groups: options.groups,
    }
}

pub fn max_pool2d(x: Tensor, pool: Pool2d) -> Tensor {
    run(Op::MaxPool2d { pool, indices: None }, [x])
}

pub fn max_pool2d_with_indices(x: Tensor, pool: Pool2d, dtype: impl Into<DType>) -> [Tensor; 2] {
    let indices = Some(convert::dtype(dtype));
    ok(runtime::run_pair(Op::MaxPool2d { pool, indices }, [x]))
}

/// `x` gives its shape only.
pub fn max_pool2d_backward(x: Tensor, gradient: Tensor, indices: Tensor, pool: Pool2d) -> Tensor {
    let size = convert::plane(x.layout());
    drop(x);
    run(Op::MaxPool2dBackward { pool, size }, [gradient, indices])
}

pub fn avg_pool2d(x: Tensor, pool: Pool2d) -> Tensor {
    run(Op::AvgPool2d(pool), [x])
}

/// `x` gives its shape only.
pub fn avg_pool2d_backward(x: Tensor, gradient: Tensor, pool: Pool2d) -> Tensor {
    let size = convert::plane(x.layout());
    drop(x);
    run(Op::AvgPool2dBackward { pool, size }, [gradient])
}

pub fn adaptive_avg_pool2d(x: Tensor, size: [usize; 2]) -> Tensor {
    run(Op::AdaptiveAvgPool2d { size }, [x])
}

/// `x` gives its shape only.
pub fn adaptive_avg_pool2d_backward(x: Tensor, gradient: Tensor) -> Tensor {
    let size = convert::plane(x.layout());
    drop(x);
    run(Op::AdaptiveAvgPool2dBackward { size }, [gradient])
}
