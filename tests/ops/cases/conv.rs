//! Convolutions and their backward ops.

use burn_backend::ops::{ConvOptions, ConvTransposeOptions, DeformConvOptions};

use crate::case::Fill::*;
use crate::value::Value;

fn plain<const N: usize>() -> ConvOptions<N> {
    ConvOptions::new([1; N], [0; N], [1; N], 1)
}

/// Stride 2, padding 1.
fn strided<const N: usize>() -> ConvOptions<N> {
    ConvOptions::new([2; N], [1; N], [1; N], 1)
}

fn dilated<const N: usize>() -> ConvOptions<N> {
    ConvOptions::new([1; N], [2; N], [2; N], 1)
}

fn padded<const N: usize>(groups: usize) -> ConvOptions<N> {
    ConvOptions::new([1; N], [1; N], [1; N], groups)
}

/// Stride 2, padding 1, output padding 1.
fn up<const N: usize>(groups: usize) -> ConvTransposeOptions<N> {
    ConvTransposeOptions::new([2; N], [1; N], [1; N], [1; N], groups)
}

fn up_dilated<const N: usize>() -> ConvTransposeOptions<N> {
    ConvTransposeOptions::new([1; N], [1; N], [0; N], [2; N], 1)
}

fn deformed(weight_groups: usize, offset_groups: usize) -> DeformConvOptions<2> {
    DeformConvOptions::new([1, 1], [1, 1], [1, 1], weight_groups, offset_groups)
}

cases! {
    {float} conv1d(x: own(Any, [2, 3, 8], [16, 32, 256]), w: own(Any, [4, 3, 3], [32, 32, 3]), b: own(Any, [4], [32])) => conv1d(x, w, Some(b), plain());
    {float} conv1d: strided(x: own(Any, [2, 3, 8]), w: own(Any, [4, 3, 3])) => conv1d(x, w, None, strided());
    {float} conv1d: dilated(x: own(Any, [2, 3, 8]), w: own(Any, [4, 3, 3])) => conv1d(x, w, None, dilated());
    {float} conv1d: grouped(x: own(Any, [2, 4, 8]), w: own(Any, [6, 2, 3])) => conv1d(x, w, None, padded(2));
    {float} conv1d_x_backward(x: own(Any, [2, 3, 8]), w: own(Any, [4, 3, 3]), grad: own(Any, [2, 4, 4])) => conv1d_x_backward(x, w, grad, strided());
    {float} conv1d_weight_backward(x: own(Any, [2, 3, 8]), w: own(Any, [4, 3, 3]), grad: own(Any, [2, 4, 4])) =>
        conv1d_weight_backward(x, w, grad, strided());
    {float} conv1d_bias_backward(x: own(Any, [2, 3, 8]), b: own(Any, [4]), grad: own(Any, [2, 4, 4]));

    {float} conv2d(x: own(Any, [2, 3, 6, 7], [4, 16, 64, 64]), w: own(Any, [4, 3, 3, 2], [32, 16, 3, 3]), b: own(Any, [4], [32])) => conv2d(x, w, Some(b), padded(1));
    {float} conv2d: pointwise(x: own(Any, [2, 3, 4, 4], [4, 64, 64, 64]), w: own(Any, [5, 3, 1, 1], [64, 64, 1, 1])) => conv2d(x, w, None, plain());
    {float} conv2d: strided(x: own(Any, [2, 3, 6, 7], [4, 16, 64, 64]), w: own(Any, [4, 3, 3, 3], [32, 16, 3, 3])) => conv2d(x, w, None, strided());
    {float} conv2d: dilated(x: own(Any, [2, 3, 6, 7], [4, 16, 64, 64]), w: own(Any, [4, 3, 3, 3], [32, 16, 3, 3])) => conv2d(x, w, None, dilated());
    {float} conv2d: grouped(x: own(Any, [2, 4, 5, 5], [4, 32, 64, 64]), w: own(Any, [6, 2, 3, 3], [32, 16, 3, 3])) => conv2d(x, w, None, padded(2));
    {float} conv2d: depthwise(x: own(Any, [2, 4, 5, 5], [4, 4, 256, 256]), w: own(Any, [4, 1, 3, 3])) => conv2d(x, w, None, padded(4));
    {float} conv2d_x_backward(x: own(Any, [2, 3, 6, 7], [4, 16, 64, 64]), w: own(Any, [4, 3, 3, 3], [32, 16, 3, 3]), grad: own(Any, [2, 4, 3, 4], [4, 32, 32, 32])) =>
        conv2d_x_backward(x, w, grad, strided());
    {float} conv2d_weight_backward(x: own(Any, [2, 3, 6, 7], [4, 16, 64, 64]), w: own(Any, [4, 3, 3, 3], [32, 16, 3, 3]), grad: own(Any, [2, 4, 3, 4], [4, 32, 32, 32])) =>
        conv2d_weight_backward(x, w, grad, strided());
    {float} conv2d_x_backward: grouped(x: own(Any, [2, 4, 5, 5]), w: own(Any, [6, 2, 3, 3]), grad: own(Any, [2, 6, 5, 5])) =>
        conv2d_x_backward(x, w, grad, padded(2));
    {float} conv2d_weight_backward: grouped(x: own(Any, [2, 4, 5, 5]), w: own(Any, [6, 2, 3, 3]), grad: own(Any, [2, 6, 5, 5])) =>
        conv2d_weight_backward(x, w, grad, padded(2));
    {float} conv2d_bias_backward(x: own(Any, [2, 3, 6, 7], [4, 16, 64, 64]), b: own(Any, [4], [32]), grad: own(Any, [2, 4, 3, 4], [4, 32, 64, 64]));

    {float} conv_transpose1d(x: own(Any, [2, 3, 5], [16, 32, 128]), w: own(Any, [3, 4, 3], [32, 32, 3]), b: own(Any, [4], [32])) => conv_transpose1d(x, w, Some(b), up(1));
    {float} conv_transpose1d: dilated(x: own(Any, [2, 3, 5]), w: own(Any, [3, 4, 3])) => conv_transpose1d(x, w, None, up_dilated());
    {float} conv_transpose1d: grouped(x: own(Any, [2, 4, 5]), w: own(Any, [4, 3, 3])) => conv_transpose1d(x, w, None, up(2));
    {float} conv_transpose1d_x_backward(w: own(Any, [3, 4, 3]), grad: own(Any, [2, 4, 10])) => conv_transpose1d_x_backward(w, grad, up(1));
    {float} conv_transpose1d_weight_backward(x: own(Any, [2, 3, 5]), w: own(Any, [3, 4, 3]), grad: own(Any, [2, 4, 10])) =>
        conv_transpose1d_weight_backward(x, w, grad, up(1));
    {float} conv_transpose1d_bias_backward(x: own(Any, [2, 3, 5]), b: own(Any, [4]), grad: own(Any, [2, 4, 10]));

    {float} conv_transpose2d(x: own(Any, [2, 3, 4, 3], [4, 32, 32, 32]), w: own(Any, [3, 4, 3, 3], [32, 16, 3, 3]), b: own(Any, [4], [16])) => conv_transpose2d(x, w, Some(b), up(1));
    {float} conv_transpose2d: dilated(x: own(Any, [2, 3, 4, 3]), w: own(Any, [3, 4, 3, 2])) => conv_transpose2d(x, w, None, up_dilated());
    {float} conv_transpose2d: grouped(x: own(Any, [2, 4, 3, 3]), w: own(Any, [4, 3, 3, 3])) => conv_transpose2d(x, w, None, up(2));
    {float} conv_transpose2d_x_backward(w: own(Any, [3, 4, 3, 3]), grad: own(Any, [2, 4, 8, 6])) => conv_transpose2d_x_backward(w, grad, up(1));
    {float} conv_transpose2d_weight_backward(x: own(Any, [2, 3, 4, 3]), w: own(Any, [3, 4, 3, 3]), grad: own(Any, [2, 4, 8, 6])) =>
        conv_transpose2d_weight_backward(x, w, grad, up(1));
    {float} conv_transpose2d_weight_backward: grouped(x: own(Any, [2, 4, 3, 3]), w: own(Any, [4, 3, 3, 3]), grad: own(Any, [2, 6, 6, 6])) =>
        conv_transpose2d_weight_backward(x, w, grad, up(2));
    {float} conv_transpose2d_bias_backward(x: own(Any, [2, 3, 4, 3]), b: own(Any, [4]), grad: own(Any, [2, 4, 8, 6]));

    {float} conv3d(x: own(Any, [2, 3, 4, 5, 4], [2, 8, 16, 16, 16]), w: own(Any, [4, 3, 2, 3, 3], [16, 8, 3, 3, 3]), b: own(Any, [4], [16])) => conv3d(x, w, Some(b), padded(1));
    {float} conv3d: strided(x: own(Any, [1, 2, 5, 5, 5]), w: own(Any, [3, 2, 3, 3, 3])) => conv3d(x, w, None, strided());
    {float} conv3d: dilated(x: own(Any, [1, 2, 4, 4, 4]), w: own(Any, [2, 2, 3, 3, 3])) => conv3d(x, w, None, dilated());
    {float} conv3d: grouped(x: own(Any, [1, 4, 4, 4, 4]), w: own(Any, [4, 2, 3, 3, 3])) => conv3d(x, w, None, padded(2));
    {float} conv3d_x_backward(x: own(Any, [1, 2, 5, 5, 5]), w: own(Any, [3, 2, 3, 3, 3]), grad: own(Any, [1, 3, 3, 3, 3])) => conv3d_x_backward(x, w, grad, strided());
    {float} conv3d_weight_backward(x: own(Any, [1, 2, 5, 5, 5]), w: own(Any, [3, 2, 3, 3, 3]), grad: own(Any, [1, 3, 3, 3, 3])) =>
        conv3d_weight_backward(x, w, grad, strided());
    {float} conv3d_bias_backward(x: own(Any, [1, 2, 5, 5, 5]), b: own(Any, [3]), grad: own(Any, [1, 3, 3, 3, 3]));
    {float} conv_transpose3d(x: own(Any, [1, 2, 3, 2, 3], [2, 16, 8, 8, 8]), w: own(Any, [2, 3, 3, 3, 3], [16, 8, 3, 3, 3]), b: own(Any, [3], [8])) => conv_transpose3d(x, w, Some(b), up(1));
    {float} conv_transpose3d: dilated(x: own(Any, [1, 2, 3, 3, 3]), w: own(Any, [2, 2, 3, 2, 2])) => conv_transpose3d(x, w, None, up_dilated());
    {float} conv_transpose3d: grouped(x: own(Any, [1, 4, 2, 2, 2]), w: own(Any, [4, 1, 3, 3, 3])) => conv_transpose3d(x, w, None, up(2));
    {float} conv_transpose3d_x_backward(w: own(Any, [2, 3, 3, 3, 3]), grad: own(Any, [1, 3, 6, 4, 6])) => conv_transpose3d_x_backward(w, grad, up(1));
    {float} conv_transpose3d_weight_backward(x: own(Any, [1, 2, 3, 2, 3]), w: own(Any, [2, 3, 3, 3, 3]), grad: own(Any, [1, 3, 6, 4, 6])) =>
        conv_transpose3d_weight_backward(x, w, grad, up(1));
    {float} conv_transpose3d_bias_backward(x: own(Any, [1, 2, 3, 2, 3]), b: own(Any, [3]), grad: own(Any, [1, 3, 6, 4, 6]));

    {float} deform_conv2d(x: own(Any, [1, 2, 4, 5], [2, 8, 32, 32]), o: own(Unit, [1, 18, 4, 5], [2, 18, 32, 32]), w: own(Any, [3, 2, 3, 3], [8, 8, 3, 3]), m: own(Positive, [1, 9, 4, 5], [2, 9, 32, 32]), b: own(Any, [3], [8])) =>
        deform_conv2d(x, o, w, Some(m), Some(b), deformed(1, 1));
    {float} deform_conv2d: unmasked(x: own(Any, [1, 2, 4, 5]), o: own(Unit, [1, 18, 4, 5]), w: own(Any, [3, 2, 3, 3])) =>
        deform_conv2d(x, o, w, None, None, deformed(1, 1));
    {float} deform_conv2d: grouped(x: own(Any, [1, 4, 3, 4]), o: own(Unit, [1, 36, 3, 4]), w: own(Any, [2, 2, 3, 3]), m: own(Positive, [1, 18, 3, 4])) =>
        deform_conv2d(x, o, w, Some(m), None, deformed(2, 2));
    {float} deform_conv2d_backward(x: own(Any, [1, 2, 4, 5]), o: own(Unit, [1, 18, 4, 5]), w: own(Any, [3, 2, 3, 3]), m: own(Positive, [1, 9, 4, 5]), b: own(Any, [3]), grad: own(Any, [1, 3, 4, 5])) -> many => {
        let grads = deform_conv2d_backward(x, o, w, Some(m), Some(b), grad, deformed(1, 1));
        let optional = [grads.mask_grad, grads.bias_grad].into_iter().flatten();
        let always = [grads.x_grad, grads.offset_grad, grads.weight_grad];
        always.into_iter().chain(optional).map(Value::Float).collect()
    };
}
