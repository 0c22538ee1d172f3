//! Images between their pixels: other sizes, places of a grid, deformable convolutions; and windows as columns.

use super::arguments::{Deforming, Windows, plane};
use super::{cast, fail, linear, module, ok, pointwise, run, view};
use crate::op::{Binary, Deform2d, Dtype, GridSample, Op, Resize};
use crate::runtime::{self, Tensor};

#[track_caller]
pub fn interpolate(x: Tensor, size: [usize; 2], resize: Resize) -> Tensor {
    run(Op::Interpolate { resize, size }, [x])
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn interpolate_backward(x: Tensor, gradient: Tensor, resize: Resize) -> Tensor {
    let size = plane(x.layout());
    drop(x);
    run(Op::InterpolateBackward { resize, size }, [gradient])
}

#[track_caller]
pub fn grid_sample(x: Tensor, grid: Tensor, sample: GridSample) -> Tensor {
    let grid = cast(grid, x.dtype());
    run(Op::GridSample(sample), [x, grid])
}

/// `[n, c, h, w] -> [n, c * kh * kw, windows]`: a view of every window, copied once.
#[track_caller]
pub fn unfold4d(x: Tensor, kernel: [usize; 2], options: Windows) -> Tensor {
    let windows = (0..2).fold(module::bordered_plane(x, options.padding.map(|zeros| [zeros; 2])), |x, k| {
        let (step, reach) = (options.dilation[k], options.dilation[k] * (kernel[k].max(1) - 1) + 1);
        let windows = view::windows(x, 2 + k, reach, options.stride[k]);
        let layout = windows.layout().slice(4 + k, 0, kernel[k], step as isize);
        windows.with_layout(layout)
    });
    let windows = view::permute(windows, &[0, 1, 4, 5, 2, 3]);
    let dims = windows.shape().dims();
    let sizes = [dims[0], dims[1..4].iter().product(), dims[4] * dims[5]];
    view::reshape_to(windows, &sizes)
}

/// The inputs of a deformable convolution. Halves are computed as `f32`, and the output is rounded once.
pub struct Deformed {
    pub x: Tensor,
    pub offset: Tensor,
    pub weight: Tensor,
    pub mask: Option<Tensor>,
}

/// Gradients of what a deformable convolution reads.
pub struct DeformedGradients {
    pub x: Tensor,
    pub offset: Tensor,
    pub weight: Tensor,
    pub mask: Option<Tensor>,
    pub bias: Option<Tensor>,
}

impl Deformed {
    #[track_caller]
    fn widened(self) -> Self {
        Deformed {
            x: widened(self.x),
            offset: widened(self.offset),
            weight: widened(self.weight),
            mask: self.mask.map(widened),
        }
    }

    /// The window, if all shapes fit together.
    #[track_caller]
    fn window(&self, options: &Deforming) -> Deform2d {
        let kernel = plane(self.weight.layout());
        let (groups, taps) = (options.offset_groups, kernel[0] * kernel[1]);
        let (x, weight, offset) = (self.x.shape(), self.weight.shape(), self.offset.shape());
        let plane = plane(self.offset.layout());
        let as_offset = |tensor: &Tensor, channels: usize| {
            tensor.shape().dims() == [x[0], channels * groups * taps, plane[0], plane[1]]
        };
        let fits = x[1] == weight[1] * options.weight_groups
            && weight[0].is_multiple_of(options.weight_groups)
            && x[1].is_multiple_of(groups)
            && as_offset(&self.offset, 2)
            && self.mask.as_ref().is_none_or(|mask| as_offset(mask, 1));
        if !fits {
            fail(format!(
                "burn-overcommit: deform_conv2d of {x:?} by {weight:?} with offsets {offset:?}, mask {:?}, \
                 {} weight groups and {groups} offset groups does not fit",
                self.mask.as_ref().map(Tensor::shape),
                options.weight_groups
            ));
        }
        Deform2d {
            kernel,
            stride: options.windows.stride,
            padding: options.windows.padding,
            dilation: options.windows.dilation,
            offset_groups: groups,
        }
    }

    #[track_caller]
    fn columns(&self, window: Deform2d) -> Tensor {
        let image = [self.x.clone(), self.offset.clone()];
        run(Op::DeformColumns(window), image.into_iter().chain(self.mask.clone()))
    }
}

#[track_caller]
fn widened(x: Tensor) -> Tensor {
    let dtype = if x.dtype().is_half() { Dtype::F32 } else { x.dtype() };
    cast(x, dtype)
}

/// The product of the weights with the sampled columns (Dai et al. 2017, "Deformable convolutional networks").
#[track_caller]
pub fn deform_conv2d(parts: Deformed, bias: Option<Tensor>, options: Deforming) -> Tensor {
    let (window, dtype) = (parts.window(&options), parts.x.dtype());
    let parts = parts.widened();
    let (groups, images, [height, width]) =
        (options.weight_groups, parts.x.shape()[0], plane(parts.offset.layout()));
    let channels = parts.weight.shape()[0];
    let inner = parts.weight.shape().count() / channels.max(1);
    let columns = view::reshape_to(parts.columns(window), &[groups, inner, images, height * width]);
    let columns = view::permute(columns, &[2, 0, 1, 3]);
    let weight = view::reshape_to(parts.weight, &[1, groups, channels / groups, inner]);
    let out = view::reshape_to(linear::matmul(weight, columns), &[images, channels, height, width]);
    let out = match bias {
        Some(bias) => {
            let bias = view::reshape_to(widened(bias), &[channels, 1, 1]);
            pointwise::binary(Binary::Add, out, bias)
        }
        None => out,
    };
    cast(out, dtype)
}

#[track_caller]
pub fn deform_conv2d_backward(
    parts: Deformed,
    is_biased: bool,
    gradient: Tensor,
    options: Deforming,
) -> DeformedGradients {
    let (window, dtype) = (parts.window(&options), parts.x.dtype());
    let bias = is_biased.then(|| module::conv_bias_backward(gradient.clone()));
    let parts = parts.widened();
    let (groups, size) = (options.weight_groups, plane(parts.x.layout()));
    let weight_shape = *parts.weight.shape();
    let inner = weight_shape.count() / weight_shape[0].max(1);
    // Channels first, so that one product a group serves all images.
    let gradient = view::permute(widened(gradient), &[1, 0, 2, 3]);
    let pixels = gradient.shape().dims()[1..].iter().product();
    let gradient = view::reshape_to(gradient, &[groups, weight_shape[0] / groups, pixels]);

    let columns = view::reshape_to(parts.columns(window), &[groups, inner, pixels]);
    let weight_gradient = linear::matmul(gradient.clone(), view::swap_dims(columns, 1, 2));
    let weight = view::reshape_to(parts.weight, &[groups, weight_shape[0] / groups, inner]);
    let columns = linear::matmul(view::swap_dims(weight, 1, 2), gradient);
    let columns = view::reshape_to(columns, &[groups * inner, pixels]);

    let image = Op::DeformBackwardImage { deform: window, size };
    let x = run(image, [parts.offset.clone(), columns.clone()].into_iter().chain(parts.mask.clone()));
    let (op, inputs) = (Op::DeformBackwardOffset(window), [parts.x, parts.offset, columns]);
    let (offset, mask) = match parts.mask {
        Some(mask) => {
            let inputs = inputs.into_iter().chain([mask]);
            let [offset, mask] = ok(runtime::run_pair(op, inputs));
            (offset, Some(mask))
        }
        None => (run(op, inputs), None),
    };
    DeformedGradients {
        x: cast(x, dtype),
        offset: cast(offset, dtype),
        weight: cast(view::reshape(weight_gradient, weight_shape), dtype),
        mask: mask.map(|mask| cast(mask, dtype)),
        bias,
    }
}
