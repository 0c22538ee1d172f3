//! Pools, interpolation and windows of images, and their backward ops.

use burn_backend::TensorMetadata;
use burn_backend::ops::{
    GridSampleOptions, GridSamplePaddingMode, InterpolateMode, InterpolateOptions, UnfoldOptions,
};

use crate::case::Fill::*;
use crate::value::Value;

fn scaled(mode: InterpolateMode, align_corners: bool) -> InterpolateOptions {
    InterpolateOptions::new(mode).with_align_corners(align_corners)
}

/// 7 rows for 4, and 6 columns for 5.
fn larger(image: &impl TensorMetadata) -> [usize; 2] {
    let shape = image.shape();
    [shape[2] * 7 / 4, shape[3] * 6 / 5]
}

fn sampled(mode: InterpolateMode, padding: GridSamplePaddingMode, align_corners: bool) -> GridSampleOptions {
    GridSampleOptions::new(mode).with_padding_mode(padding).with_align_corners(align_corners)
}

cases! {
    {float} avg_pool1d(x: own(Any, [2, 3, 9], [16, 64, 512])) => avg_pool1d(x, 3, 2, 1, true, false);
    {float} avg_pool1d_backward(x: own(Any, [2, 3, 9]), grad: own(Any, [2, 3, 5])) => avg_pool1d_backward(x, grad, 3, 2, 1, true, false);
    {float} avg_pool2d(x: own(Any, [2, 3, 6, 7], [4, 16, 128, 128])) => avg_pool2d(x, [3, 2], [2, 1], [1, 1], true, false);
    {float} avg_pool2d: uncounted(x: own(Any, [2, 3, 6, 7])) => avg_pool2d(x, [3, 3], [2, 2], [1, 1], false, false);
    {float} avg_pool2d: ceil(x: own(Any, [2, 3, 6, 7])) => avg_pool2d(x, [3, 3], [2, 2], [0, 0], true, true);
    {float} avg_pool2d: ceil_uncounted(x: own(Any, [2, 3, 6, 7])) => avg_pool2d(x, [3, 3], [2, 2], [1, 1], false, true);
    {float} avg_pool2d_backward(x: own(Any, [2, 3, 6, 7], [4, 16, 128, 128]), grad: own(Any, [2, 3, 3, 4], [4, 16, 64, 64])) =>
        avg_pool2d_backward(x, grad, [3, 3], [2, 2], [1, 1], false, false);
    {float} adaptive_avg_pool1d(x: own(Any, [2, 3, 7])) => adaptive_avg_pool1d(x, 4);
    {float} adaptive_avg_pool1d_backward(x: own(Any, [2, 3, 7]), grad: own(Any, [2, 3, 4]));
    {float} adaptive_avg_pool2d(x: own(Any, [2, 3, 6, 7], [4, 16, 128, 128])) => adaptive_avg_pool2d(x, [4, 3]);
    {float} adaptive_avg_pool2d_backward(x: own(Any, [2, 3, 6, 7]), grad: own(Any, [2, 3, 4, 3]));

    {float} max_pool1d(x: own(Any, [2, 3, 9], [16, 64, 512])) => max_pool1d(x, 3, 2, 1, 1, false);
    {float} max_pool1d_with_indices(x: own(Any, [2, 3, 9])) -> many => {
        let pooled = max_pool1d_with_indices(x, 3, 2, 1, 1, false);
        vec![Value::Float(pooled.output), Value::Int(B::int_cast(pooled.indices, burn_backend::IntDType::I64))]
    };
    {float} max_pool2d(x: own(Any, [2, 3, 6, 7], [4, 16, 128, 128])) => max_pool2d(x, [3, 2], [2, 1], [1, 1], [1, 1], false);
    {float} max_pool2d: dilated(x: own(Any, [2, 3, 6, 7])) => max_pool2d(x, [2, 2], [1, 2], [1, 1], [2, 2], false);
    {float} max_pool2d: ceil(x: own(Any, [2, 3, 6, 7])) => max_pool2d(x, [3, 3], [2, 2], [0, 0], [1, 1], true);
    {float} max_pool2d_with_indices(x: own(Any, [2, 3, 6, 7], [4, 16, 128, 128])) -> many => {
        let pooled = max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1], [1, 1], false);
        vec![Value::Float(pooled.output), Value::Int(B::int_cast(pooled.indices, burn_backend::IntDType::I64))]
    };
    {float} max_pool2d_with_indices_backward(x: own(Any, [2, 3, 6, 7], [4, 16, 128, 128]), grad: own(Any, [2, 3, 3, 4], [4, 16, 64, 64])) => {
        let indices = B::max_pool2d_with_indices(x.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false).indices;
        max_pool2d_with_indices_backward(x, [3, 3], [2, 2], [1, 1], [1, 1], false, grad, indices).x_grad
    };

    [float] grid_sample_2d(x: own(Any, [1, 2, 4, 5], [2, 8, 64, 64]), grid: own(Unit, [1, 3, 3, 2], [2, 64, 64, 2])) =>
        grid_sample_2d(x, grid, sampled(InterpolateMode::Bilinear, GridSamplePaddingMode::Zeros, false));
    [float] grid_sample_2d: aligned(x: own(Any, [1, 2, 4, 5]), grid: own(Any, [1, 3, 3, 2])) =>
        grid_sample_2d(x, grid, sampled(InterpolateMode::Bilinear, GridSamplePaddingMode::Zeros, true));
    [float] grid_sample_2d: border(x: own(Any, [1, 2, 4, 5]), grid: own(Any, [1, 3, 3, 2])) =>
        grid_sample_2d(x, grid, sampled(InterpolateMode::Bilinear, GridSamplePaddingMode::Border, false));
    [float] grid_sample_2d: reflection(x: own(Any, [1, 2, 4, 5]), grid: own(Any, [1, 3, 3, 2])) =>
        grid_sample_2d(x, grid, sampled(InterpolateMode::Bilinear, GridSamplePaddingMode::Reflection, false));

    {float} unfold4d(x: own(Any, [2, 3, 5, 6], [4, 8, 64, 64])) => unfold4d(x, [3, 2], UnfoldOptions::new([1, 1], [0, 0], [1, 1]));
    {float} unfold4d: padded(x: own(Any, [2, 3, 5, 6])) => unfold4d(x, [3, 2], UnfoldOptions::new([2, 1], [1, 1], [1, 2]));

    {float} interpolate: nearest(x: own(Any, [1, 2, 4, 5], [2, 8, 128, 128])) => {
        let size = larger(&x);
        interpolate(x, size, scaled(InterpolateMode::Nearest, true))
    };
    {float} interpolate: nearest_less(x: own(Any, [1, 2, 7, 6])) => interpolate(x, [4, 5], scaled(InterpolateMode::Nearest, false));
    {float} interpolate: bilinear(x: own(Any, [1, 2, 4, 5], [2, 8, 128, 128])) => {
        let size = larger(&x);
        interpolate(x, size, scaled(InterpolateMode::Bilinear, true))
    };
    {float} interpolate: bilinear_loose(x: own(Any, [1, 2, 4, 5])) => interpolate(x, [7, 3], scaled(InterpolateMode::Bilinear, false));
    {float} interpolate: bicubic(x: own(Any, [1, 2, 4, 5], [2, 8, 128, 128])) => {
        let size = larger(&x);
        interpolate(x, size, scaled(InterpolateMode::Bicubic, true))
    };
    {float} interpolate: bicubic_loose(x: own(Any, [1, 2, 4, 5])) => interpolate(x, [7, 3], scaled(InterpolateMode::Bicubic, false));
    {float} interpolate: lanczos(x: own(Any, [1, 2, 6, 7])) => interpolate(x, [8, 9], scaled(InterpolateMode::Lanczos3, true));
    {float} interpolate: lanczos_loose(x: own(Any, [1, 2, 6, 7])) => interpolate(x, [4, 9], scaled(InterpolateMode::Lanczos3, false));
    {float} interpolate_backward: nearest(x: own(Any, [1, 2, 4, 5], [2, 8, 128, 128]), grad: own(Any, [1, 2, 7, 6], [2, 8, 224, 153])) => {
        let size = larger(&x);
        interpolate_backward(x, grad, size, scaled(InterpolateMode::Nearest, true))
    };
    {float} interpolate_backward: bilinear(x: own(Any, [1, 2, 4, 5], [2, 8, 128, 128]), grad: own(Any, [1, 2, 7, 6], [2, 8, 224, 153])) => {
        let size = larger(&x);
        interpolate_backward(x, grad, size, scaled(InterpolateMode::Bilinear, true))
    };
    {float} interpolate_backward: bicubic(x: own(Any, [1, 2, 4, 5], [2, 8, 128, 128]), grad: own(Any, [1, 2, 7, 6], [2, 8, 224, 153])) => {
        let size = larger(&x);
        interpolate_backward(x, grad, size, scaled(InterpolateMode::Bicubic, true))
    };
}
