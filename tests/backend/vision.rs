//! Pools, and images read between their pixels, against burn-flex's, through Burn's tensor API.

use crate::support::{Answers, Ours, Reference, assert_same, floats};
use burn::tensor::backend::Backend;
use burn::tensor::module::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, avg_pool1d, avg_pool2d, deform_conv2d, interpolate, max_pool1d,
    max_pool2d, max_pool2d_with_indices,
};
use burn::tensor::ops::{
    DeformConvOptions, GridSampleOptions, GridSamplePaddingMode, InterpolateMode, InterpolateOptions,
};
use burn::tensor::{Tensor, s};
use burn_overcommit::OvercommitDevice;

compare! {
    pools, 1e-5;
    sizes, 1e-5;
    grids, 1e-5;
    deformable_convolutions, 1e-4;
}

fn pools<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 4>([2, 3, 7, 6], device);
    let line = floats::<B, 3>([2, 3, 9], device);
    answers! { out;
        max_pool2d(x.clone(), [2, 2], [2, 2], [0, 0], [1, 1], false);
        max_pool2d(x.clone(), [3, 2], [2, 1], [1, 1], [1, 2], false);
        max_pool2d(x.clone(), [2, 2], [2, 2], [0, 0], [1, 1], true);
        max_pool2d_with_indices(x.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false).1;
        avg_pool2d(x.clone(), [3, 2], [2, 2], [1, 1], true, false);
        avg_pool2d(x.clone(), [3, 2], [2, 2], [1, 1], false, false);
        adaptive_avg_pool2d(x.clone(), [3, 4]);
        adaptive_avg_pool2d(x.clone(), [1, 1]);
        max_pool1d(line.clone(), 3, 2, 1, 1, false);
        avg_pool1d(line.clone(), 3, 2, 1, true, false);
        adaptive_avg_pool1d(line.clone(), 4);
        max_pool2d(x.clone(), [3, 3], [1, 1], [1, 1], [1, 1], true);
        avg_pool2d(x.clone(), [3, 3], [2, 1], [1, 0], false, true);
        max_pool2d(x.clone().permute([0, 1, 3, 2]), [2, 3], [1, 2], [0, 1], [1, 1], false);
    }
}

fn sizes<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 4>([2, 3, 7, 6], device);
    let turned = floats::<B, 4>([2, 6, 7, 3], device).permute([0, 3, 2, 1]);
    use InterpolateMode::{Bicubic, Bilinear, Lanczos3, Nearest};
    for mode in [Nearest, Bilinear, Bicubic, Lanczos3] {
        for align_corners in [true, false] {
            let options = InterpolateOptions::new(mode.clone()).with_align_corners(align_corners);
            answers! { out;
                interpolate(x.clone(), [14, 12], options.clone());
                interpolate(x.clone(), [3, 4], options.clone());
                interpolate(x.clone(), [9, 1], options.clone());
                interpolate(x.clone().slice(s![.., .., 2..3, 1..2]), [3, 2], options.clone());
                interpolate(turned.clone(), [10, 5], options.clone());
            }
        }
    }
}

fn grids<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 4>([2, 3, 7, 6], device);
    let grid = floats::<B, 4>([2, 4, 5, 2], device).mul_scalar(1.7);
    let turned = floats::<B, 4>([2, 2, 5, 4], device).permute([0, 3, 2, 1]);
    use GridSamplePaddingMode::{Border, Reflection, Zeros};
    for mode in [InterpolateMode::Nearest, InterpolateMode::Bilinear] {
        for padding in [Zeros, Border, Reflection] {
            for align_corners in [true, false] {
                let options = GridSampleOptions::new(mode.clone())
                    .with_padding_mode(padding)
                    .with_align_corners(align_corners);
                answers! { out;
                    x.clone().grid_sample_2d(grid.clone(), options.clone());
                    x.clone().permute([0, 1, 3, 2]).grid_sample_2d(turned.clone(), options.clone());
                }
            }
        }
    }
}

fn deformable_convolutions<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 4>([2, 4, 7, 6], device);
    let offset = |groups: usize, size: [usize; 2]| {
        floats::<B, 4>([2, 12 * groups, size[0], size[1]], device).mul_scalar(1.5)
    };
    let mask = floats::<B, 4>([2, 12, 4, 7], device);
    let bias = floats::<B, 1>([6], device);
    let plain = DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1);
    let general = DeformConvOptions::new([2, 1], [1, 1], [1, 1], 2, 2);
    answers! { out;
        deform_conv2d(x.clone(), offset(1, [5, 5]), floats([6, 4, 3, 2], device), None, None, plain.clone());
        deform_conv2d(x.clone(), offset(2, [4, 7]), floats([6, 2, 3, 2], device), Some(mask.clone()), Some(bias.clone()), general.clone());
        deform_conv2d(x.clone(), offset(2, [4, 7]), floats([6, 2, 3, 2], device), None, Some(bias.clone()), general.clone());
    }
}

#[test]
#[should_panic(expected = "grid_sample_2d has no Bicubic")]
fn a_grid_is_sampled_in_two_ways_only() {
    let device = OvercommitDevice::Host(0);
    let grid = floats::<Ours, 4>([1, 2, 2, 2], &device);
    let _ = floats::<Ours, 4>([1, 1, 3, 3], &device).grid_sample_2d(grid, InterpolateMode::Bicubic);
}

#[test]
#[should_panic(expected = "1 offset groups does not fit")]
fn offsets_that_do_not_fit_are_refused() {
    let device = OvercommitDevice::Host(0);
    let [x, offset, weight] = [[1, 2, 5, 5], [1, 7, 3, 3], [4, 2, 2, 2]].map(|sizes| floats(sizes, &device));
    let options = DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1);
    let _ = deform_conv2d::<Ours>(x, offset, weight, None, None, options);
}

/// Halves are computed in more precision, and rounded once.
#[test]
fn half_precision_is_the_rounded_result() {
    use burn::tensor::DType;
    let device = OvercommitDevice::Host(0);
    for dtype in [DType::F16, DType::BF16] {
        let half = |x: Tensor<Ours, 4>| x.cast(dtype);
        let x = half(floats([2, 4, 7, 6], &device));
        let [offset, weight] = [[2, 8, 6, 5], [3, 4, 2, 2]].map(|sizes| half(floats(sizes, &device)));
        let grid = half(floats([2, 4, 5, 2], &device));
        let wide = |x: &Tensor<Ours, 4>| x.clone().cast(DType::F32);
        let options = DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1);
        let resize = InterpolateOptions::new(InterpolateMode::Bicubic);
        let deformed = |x, offset, weight| deform_conv2d(x, offset, weight, None, None, options.clone());
        let pairs = [
            (
                deformed(x.clone(), offset.clone(), weight.clone()),
                deformed(wide(&x), wide(&offset), wide(&weight)),
            ),
            (
                x.clone().grid_sample_2d(grid.clone(), InterpolateMode::Bilinear),
                wide(&x).grid_sample_2d(wide(&grid), InterpolateMode::Bilinear),
            ),
            (interpolate(x.clone(), [9, 11], resize.clone()), interpolate(wide(&x), [9, 11], resize)),
            (
                avg_pool2d(x.clone(), [3, 3], [1, 1], [1, 1], true, false),
                avg_pool2d(wide(&x), [3, 3], [1, 1], [1, 1], true, false),
            ),
        ];
        for (found, expected) in pairs {
            assert_eq!(found.into_data(), expected.cast(dtype).into_data());
        }
    }
}
