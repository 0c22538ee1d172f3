//! Convolutions and pools.
//!
//! Convolutions of one and two dimensions are those of three with unit dimensions in front, which are views.

use super::arguments::{Convolution, Slice, Transposed, plane};
use super::{create, ok, pointwise, reduce, run, view};
use crate::op::{Binary, Dtype, Op, Pool2d, Reduce, Shape};
use crate::runtime::{self, Tensor};

/// `[a, b, spatial..]` as `[a, b, d, h, w]`.
#[track_caller]
fn deepened(x: Tensor) -> Tensor {
    let dims = x.shape().dims();
    let missing = 5_usize.saturating_sub(dims.len());
    let dims = [&dims[..2], &vec![1; missing], &dims[2..]].concat();
    view::reshape_to(x, &dims)
}

/// The reverse of [`deepened`], for `rank` dimensions.
#[track_caller]
fn flattened(x: Tensor, rank: usize) -> Tensor {
    let dims = x.shape().dims();
    let dims = [&dims[..2], &dims[7 - rank..]].concat();
    view::reshape_to(x, &dims)
}

/// Depth, height and width of `[a, b, d, h, w]`.
#[track_caller]
fn space(x: &Tensor) -> [usize; 3] {
    [2, 3, 4].map(|axis| x.shape()[axis])
}

#[track_caller]
pub fn conv(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: Convolution) -> Tensor {
    let (Convolution { conv, border }, rank) = (options, x.shape().rank());
    let [x, weight] = [x, weight].map(deepened);
    let inputs = [bordered(x, border), weight].into_iter().chain(bias);
    flattened(run(Op::Conv(conv), inputs), rank)
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn conv_x_backward(x: Tensor, weight: Tensor, gradient: Tensor, options: Convolution) -> Tensor {
    let (Convolution { conv, border }, rank) = (options, x.shape().rank());
    let [x, weight, gradient] = [x, weight, gradient].map(deepened);
    let inside = space(&x);
    drop(x);
    let size = std::array::from_fn(|k| inside[k] + border[k][0] + border[k][1]);
    let whole = run(Op::ConvBackwardInput { conv, size }, [weight, gradient]);
    flattened((0..3).fold(whole, |x, k| view::narrow(x, k + 2, border[k][0], inside[k])), rank)
}

/// Only the shape of `weight` is used.
#[track_caller]
pub fn conv_weight_backward(x: Tensor, weight: Tensor, gradient: Tensor, options: Convolution) -> Tensor {
    let (Convolution { conv, border }, rank) = (options, x.shape().rank());
    let [x, weight, gradient] = [x, weight, gradient].map(deepened);
    let kernel = space(&weight);
    drop(weight);
    let inputs = [bordered(x, border), gradient];
    flattened(run(Op::ConvBackwardWeight { conv, kernel }, inputs), rank)
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
pub fn conv_transpose(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: Transposed) -> Tensor {
    let (Transposed { conv, padding_out }, rank) = (options, x.shape().rank());
    let [x, weight] = [x, weight].map(deepened);
    let (input, kernel) = (space(&x), space(&weight));
    let size = std::array::from_fn(|k| {
        let reach = conv.dilation[k] * (kernel[k].max(1) - 1) + 1;
        let full = input[k].saturating_sub(1) * conv.stride[k] + reach + padding_out[k];
        full.saturating_sub(2 * conv.padding[k])
    });
    let x = padded(x, conv.output_size(size, kernel));
    let out = run(Op::ConvBackwardInput { conv, size }, [weight, x]);
    flattened(
        match bias {
            Some(bias) => {
                let channels = bias.shape().count();
                pointwise::binary(Binary::Add, out, view::reshape_to(bias, &[channels, 1, 1, 1]))
            }
            None => out,
        },
        rank,
    )
}

/// The convolution of the gradient, without what output padding adds beyond the forward's input.
#[track_caller]
pub fn conv_transpose_x_backward(weight: Tensor, gradient: Tensor, options: Transposed) -> Tensor {
    let (Transposed { conv, padding_out }, rank) = (options, gradient.shape().rank());
    let [weight, gradient] = [weight, gradient].map(deepened);
    let unpadded = std::array::from_fn(|k| space(&gradient)[k].saturating_sub(padding_out[k]));
    let size = conv.output_size(unpadded, space(&weight));
    let whole = run(Op::Conv(conv), [gradient, weight]);
    flattened((0..3).fold(whole, |x, k| view::narrow(x, k + 2, 0, size[k])), rank)
}

/// In a transposed convolution input and gradient change places.
#[track_caller]
pub fn conv_transpose_weight_backward(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    options: Transposed,
) -> Tensor {
    let conv = options.conv;
    let rank = x.shape().rank();
    let [x, weight, gradient] = [x, weight, gradient].map(deepened);
    let kernel = space(&weight);
    let x = padded(x, conv.output_size(space(&gradient), kernel));
    flattened(run(Op::ConvBackwardWeight { conv, kernel }, [gradient, x]), rank)
}

/// `x` with zeros after its elements up to `size`: output padding of a stride or more reaches beyond `x`.
#[track_caller]
fn padded(x: Tensor, size: [usize; 3]) -> Tensor {
    let inside = space(&x);
    bordered(x, std::array::from_fn(|k| [0, size[k].saturating_sub(inside[k])]))
}

/// `x` with this many zeros before and after each axis of its images.
#[track_caller]
fn bordered(x: Tensor, border: [[usize; 2]; 3]) -> Tensor {
    if border == [[0; 2]; 3] {
        return x;
    }
    let (dims, size) = (x.shape().dims(), space(&x));
    let inside = (0..3).map(|k| Slice::of(border[k][0], size[k]));
    let slices: Vec<Slice> = [Slice::FULL; 2].into_iter().chain(inside).collect();
    let outside: [usize; 3] = std::array::from_fn(|k| size[k] + border[k][0] + border[k][1]);
    let shape = Shape::new(&[&dims[..2], &outside].concat());
    let zeros = create::zeros(shape, &x.device(), x.dtype());
    view::slice_assign(zeros, &slices, x)
}

/// [`bordered`] for images without depth.
#[track_caller]
pub(super) fn bordered_plane(x: Tensor, border: [[usize; 2]; 2]) -> Tensor {
    flattened(bordered(deepened(x), [[0; 2], border[0], border[1]]), 4)
}

/// The window of a maximum.
pub fn max_window(
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil_mode: bool,
) -> Pool2d {
    Pool2d { kernel, stride, padding, dilation, ceil_mode, count_include_pad: false }
}

/// The window of an average.
pub fn avg_window(
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    count_include_pad: bool,
    ceil_mode: bool,
) -> Pool2d {
    Pool2d { kernel, stride, padding, dilation: [1, 1], ceil_mode, count_include_pad }
}

#[track_caller]
pub fn max_pool2d(x: Tensor, pool: Pool2d) -> Tensor {
    run(Op::MaxPool2d { pool, indices: None }, [x])
}

#[track_caller]
pub fn max_pool2d_with_indices(x: Tensor, pool: Pool2d, dtype: Dtype) -> [Tensor; 2] {
    let indices = Some(dtype);
    ok(runtime::run_pair(Op::MaxPool2d { pool, indices }, [x]))
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn max_pool2d_backward(x: Tensor, gradient: Tensor, indices: Tensor, pool: Pool2d) -> Tensor {
    let size = plane(x.layout());
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
    let size = plane(x.layout());
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
    let size = plane(x.layout());
    drop(x);
    run(Op::AdaptiveAvgPool2dBackward { size }, [gradient])
}
