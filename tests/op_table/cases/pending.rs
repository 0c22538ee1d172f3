//! Ops that the backend has no kernels for yet. A line moves to its place in the table when they are there; the list
//! `cases::all` does not have this one.

use burn_backend::ops::{DeformConvOptions, InterpolateMode, InterpolateOptions};
use burn_backend::tensor::IndexingUpdateOp::{Assign, Max, Min, Mul};

use crate::case::{Fill::*, ROWS};
use crate::value::Value;

fn deformed(weight_groups: usize, offset_groups: usize) -> DeformConvOptions<2> {
    DeformConvOptions::new([1, 1], [1, 1], [1, 1], weight_groups, offset_groups)
}

fn scaled(mode: InterpolateMode, align_corners: bool) -> InterpolateOptions {
    InterpolateOptions::new(mode).with_align_corners(align_corners)
}

cases! {
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
    [float int] cumsum(x: own(Any, ROWS); axis) => cumsum(x, axis);
    [float int] cumprod(x: own(Any, ROWS); axis) => cumprod(x, axis);
    [float int] cummin(x: own(Any, ROWS); axis) => cummin(x, axis);
    [float int] cummax(x: own(Any, ROWS); axis) => cummax(x, axis);
    [float int] scatter_nd: assign(x: own(Any, [7, 3], [1024, 256]), i: int(Below(7), [1, 1]), y: own(Any, [1, 3], [1, 256])) =>
        scatter_nd(x, i, y, Assign);
    [float int] scatter_nd: mul(x: own(Any, [4, 5, 3]), i: int(Below(4), [6, 2]), y: own(Any, [6, 3])) =>
        scatter_nd(x, i, y, Mul);
    [float int] scatter_nd: min(x: own(Any, [4, 5, 3]), i: int(Below(4), [6, 2]), y: own(Any, [6, 3])) =>
        scatter_nd(x, i, y, Min);
    [float int] scatter_nd: max(x: own(Any, [4, 5, 3]), i: int(Below(4), [6, 2]), y: own(Any, [6, 3])) =>
        scatter_nd(x, i, y, Max);
    {float} interpolate: nearest(x: own(Any, [1, 2, 4, 5], [2, 8, 64, 64])) => interpolate(x, [7, 6], scaled(InterpolateMode::Nearest, true));
    {float} interpolate: nearest_less(x: own(Any, [1, 2, 7, 6])) => interpolate(x, [4, 5], scaled(InterpolateMode::Nearest, false));
    {float} interpolate: bilinear(x: own(Any, [1, 2, 4, 5], [2, 8, 64, 64])) => interpolate(x, [7, 6], scaled(InterpolateMode::Bilinear, true));
    {float} interpolate: bilinear_loose(x: own(Any, [1, 2, 4, 5])) => interpolate(x, [7, 3], scaled(InterpolateMode::Bilinear, false));
    {float} interpolate: bicubic(x: own(Any, [1, 2, 4, 5], [2, 8, 64, 64])) => interpolate(x, [7, 6], scaled(InterpolateMode::Bicubic, true));
    {float} interpolate: bicubic_loose(x: own(Any, [1, 2, 4, 5])) => interpolate(x, [7, 3], scaled(InterpolateMode::Bicubic, false));
    {float} interpolate: lanczos(x: own(Any, [1, 2, 6, 7])) => interpolate(x, [8, 9], scaled(InterpolateMode::Lanczos3, true));
    {float} interpolate: lanczos_loose(x: own(Any, [1, 2, 6, 7])) => interpolate(x, [4, 9], scaled(InterpolateMode::Lanczos3, false));
    {float} interpolate_backward: nearest(x: own(Any, [1, 2, 4, 5]), grad: own(Any, [1, 2, 7, 6])) =>
        interpolate_backward(x, grad, [7, 6], scaled(InterpolateMode::Nearest, true));
    {float} interpolate_backward: bilinear(x: own(Any, [1, 2, 4, 5]), grad: own(Any, [1, 2, 7, 6])) =>
        interpolate_backward(x, grad, [7, 6], scaled(InterpolateMode::Bilinear, true));
    {float} interpolate_backward: bicubic(x: own(Any, [1, 2, 4, 5]), grad: own(Any, [1, 2, 7, 6])) =>
        interpolate_backward(x, grad, [7, 6], scaled(InterpolateMode::Bicubic, true));
}
