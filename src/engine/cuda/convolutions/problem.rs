//! A convolution or one of its gradients as cuDNN is told of it: sizes, and how tensors lie.

use crate::engine::cuda::driver::Called;
use crate::engine::cuda::scratch::copies_bytes;
use crate::op::{Conv, Dtype, Layout, Op, Shape, View};

/// What is computed from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pass {
    Forward,
    /// The image's gradient.
    Input,
    /// The weight's gradient.
    Weight,
}

/// A tensor `[n, c, d, h, w]`: sizes, and elements from one to the next along each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tensor {
    pub sizes: [i32; 5],
    pub strides: [i32; 5],
}

/// All that an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub pass: Pass,
    pub dtype: Dtype,
    pub image: Tensor,
    /// Row-major.
    pub weight: [i32; 5],
    pub result: Tensor,
    pub stride: [i32; 3],
    pub padding: [i32; 3],
    pub dilation: [i32; 3],
    pub groups: i32,
    /// Whether the output is added to what it was: it begins as the bias.
    pub is_added: bool,
}

/// An op by the library.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub problem: Problem,
    /// Views of the inputs that the library cannot read as they lie: copied first.
    pub copies: [Option<View>; 2],
}

/// Addresses that the library is given are multiples of this.
pub(super) const MIN_ALIGN_BYTES: usize = 16;

impl Tensor {
    fn new(layout: &Layout) -> Option<Self> {
        let (mut sizes, mut strides, mut step) = ([0; 5], [0; 5], 1);
        for axis in (0..5).rev() {
            let size = layout.shape()[axis];
            // Where there is one element, any step will do: that of a row-major tensor shows it to be one.
            let stride = if size == 1 { step } else { layout.strides()[axis] };
            (sizes[axis], strides[axis]) = (i32::try_from(size).ok()?, i32::try_from(stride).ok()?);
            step = stride * size as isize;
        }
        Some(Tensor { sizes, strides })
    }

    pub fn row_major(sizes: [i32; 5]) -> Self {
        let mut strides = [1; 5];
        for axis in (0..4).rev() {
            strides[axis] = strides[axis + 1] * sizes[axis + 1];
        }
        Tensor { sizes, strides }
    }

    pub fn count(&self) -> usize {
        self.sizes.iter().map(|&size| size as usize).product()
    }
}

/// Whether every element of a view has a place of its own, forwards along every axis.
fn is_spread(layout: &Layout) -> bool {
    let axes = layout.shape().dims().iter().zip(layout.strides());
    let mut axes: Vec<(isize, usize)> =
        axes.filter(|&(&size, _)| size > 1).map(|(&size, &stride)| (stride, size)).collect();
    axes.sort_unstable();
    let mut end = 1;
    axes.into_iter().all(|(stride, size)| {
        let is_beyond = stride >= end;
        end = stride * size as isize;
        is_beyond
    })
}

fn is_aligned(layout: &Layout, dtype: Dtype) -> bool {
    (layout.offset() * dtype.size_bytes()).is_multiple_of(MIN_ALIGN_BYTES)
}

fn small(sizes: [usize; 3]) -> Option<[i32; 3]> {
    let [depth, height, width] = sizes.map(|size| i32::try_from(size).ok());
    Some([depth?, height?, width?])
}

/// The pass and the forward convolution of an op.
fn pass_of(op: &Op) -> Option<(Pass, Conv)> {
    Some(match *op {
        Op::Conv(conv) => (Pass::Forward, conv),
        Op::ConvBackwardInput { conv, .. } => (Pass::Input, conv),
        Op::ConvBackwardWeight { conv, .. } => (Pass::Weight, conv),
        _ => return None,
    })
}

impl Convolution {
    /// Of an op; nothing if the library is not to be asked. All inputs are row-major, copies if need be, if `packed`.
    pub fn new(op: &Op, inputs: &[View], output: &View, packed: bool) -> Option<Self> {
        let (pass, conv) = pass_of(op)?;
        let is_empty = |view: &View| view.shape().count() == 0;
        if !Dtype::FLOATS.contains(&output.dtype) || inputs.iter().chain([output]).any(is_empty) {
            return None;
        }
        let (mut read, mut copies) = ([inputs[0].layout, inputs[1].layout], [None; 2]);
        let weight_input = match pass {
            Pass::Forward => Some(1),
            Pass::Input => Some(0),
            Pass::Weight => None,
        };
        for (index, (layout, copy)) in read.iter_mut().zip(&mut copies).enumerate() {
            let is_dense = layout.is_contiguous();
            let is_readable = is_dense || (!packed && weight_input != Some(index) && is_spread(layout));
            if !is_readable || !is_aligned(layout, output.dtype) {
                *copy = Some(inputs[index]);
                *layout = Layout::contiguous(*layout.shape());
            }
        }
        let [image, weight, result] = match pass {
            Pass::Forward => [read[0], read[1], output.layout],
            Pass::Input => [output.layout, read[0], read[1]],
            Pass::Weight => [read[0], output.layout, read[1]],
        };
        let space = |layout: &Layout| [2, 3, 4].map(|axis| layout.shape()[axis]);
        if conv.output_size(space(&image), space(&weight)) != space(&result) {
            return None;
        }
        let problem = Problem {
            pass,
            dtype: output.dtype,
            image: Tensor::new(&image)?,
            weight: Tensor::new(&weight)?.sizes,
            result: Tensor::new(&result)?,
            stride: small(conv.stride)?,
            padding: small(conv.padding)?,
            dilation: small(conv.dilation)?,
            groups: i32::try_from(conv.groups).ok()?,
            is_added: inputs.len() > 2,
        };
        Some(Convolution { problem, copies })
    }

    pub fn copies_bytes(&self) -> usize {
        copies_bytes(&self.copies)
    }
}

impl Problem {
    /// Whether it is one of planes: the library has more algorithms for those.
    pub fn is_flat(&self) -> bool {
        self.image.sizes[2] == 1 && self.weight[2] == 1 && self.padding[0] == 0
    }

    /// Bytes of image, weight and result as Winograd's F(4x4, 3x3) transforms them, where it can: 36 elements of each tile of 4x4 results
    /// (Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*, section 4).
    pub fn winograd_bytes(&self) -> Option<usize> {
        let Problem { stride, dilation, groups, .. } = *self;
        let [filters, channels, .., height, width] = self.weight.map(|size| size as usize);
        if !self.is_flat() || (stride, dilation, groups, height, width) != ([1; 3], [1; 3], 1, 3, 3) {
            return None;
        }
        let [images, .., height, width] = self.result.sizes.map(|size| size as usize);
        let tiles = images * height.div_ceil(4) * width.div_ceil(4);
        Some(36 * (tiles * channels + tiles * filters + filters * channels) * self.dtype.size_bytes())
    }

    /// Whether an engine with this workspace is Winograd's, to a 64th. The column matrices of all images (im2col) can be as large: those
    /// of an operand with a third of the other's channels.
    pub fn is_winograd_workspace(&self, workspace_bytes: usize) -> bool {
        let Some(tiles_bytes) = self.winograd_bytes() else { return false };
        let operands = [(self.weight[1], &self.result), (self.weight[0], &self.image)];
        let columns_bytes = operands.map(|(channels, places)| {
            let places = places.count() / places.sizes[1] as usize;
            9 * channels as usize * places * self.dtype.size_bytes()
        });
        let distance_bytes = workspace_bytes.abs_diff(tiles_bytes);
        let is_nearer = |other_bytes| distance_bytes < workspace_bytes.abs_diff(other_bytes);
        distance_bytes <= tiles_bytes / 64 && columns_bytes.into_iter().all(is_nearer)
    }

    /// Bytes of image, weight and result together.
    pub fn operands_bytes(&self) -> usize {
        let weights: usize = self.weight.iter().map(|&size| size as usize).product();
        (self.image.count() + weights + self.result.count()) * self.dtype.size_bytes()
    }
}

/// A bias, of one dimension, as the output that begins as it.
pub(super) fn bias_over(bias: &View, output: &View) -> Called<View> {
    let column = Shape::new(&[bias.shape()[0], 1, 1, 1]);
    let layout = bias.layout.reshape(column).ok_or("a bias has one dimension")?;
    Ok(View { layout: layout.expand(*output.shape()), ..*bias })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONV: Conv = Conv { stride: [1; 3], padding: [0, 1, 1], dilation: [1; 3], groups: 1 };

    fn view(sizes: &[usize]) -> View {
        View::contiguous(Dtype::F32, Shape::new(sizes))
    }

    fn forward(image: View, packed: bool) -> Convolution {
        let (op, weight) = (Op::Conv(CONV), view(&[4, 3, 1, 3, 3]));
        let output = op.outputs(&[image, weight])[0];
        Convolution::new(&op, &[image, weight], &output, packed).expect("floats")
    }

    #[test]
    fn strides_are_told_and_those_of_single_elements_are_as_if_row_major() {
        let wide = view(&[2, 6, 1, 5, 7]);
        let part = View { layout: wide.layout.slice(1, 0, 3, 1), ..wide };
        let convolution = forward(part, false);
        assert_eq!(convolution.copies, [None, None]);
        assert!(convolution.problem.is_flat());
        assert_eq!(convolution.problem.image.strides, [6 * 35, 35, 35, 7, 1]);
        assert_eq!(convolution.problem.result.sizes, [2, 4, 1, 5, 7]);
        assert!(forward(part, true).copies[0].is_some());
        assert_eq!(forward(part, true).problem.image.strides, [3 * 35, 35, 35, 7, 1]);
    }

    #[test]
    fn tiles_of_winograd_take_what_a_library_said_they_do() {
        // Measured on an H100 (cuDNN 9.14): 81 MiB.
        let (image, weight) = (view(&[64, 256, 1, 14, 14]), view(&[256, 256, 1, 3, 3]));
        let op = Op::Conv(CONV);
        let output = op.outputs(&[image, weight])[0];
        let problem = Convolution::new(&op, &[image, weight], &output, false).unwrap().problem;
        assert_eq!(problem.winograd_bytes().map(|bytes| bytes >> 20), Some(81));
        assert_eq!(Problem { groups: 2, ..problem }.winograd_bytes(), None);
    }

    #[test]
    fn column_matrices_as_large_as_winograds_tiles_are_told_apart() {
        // Both asked of cuDNN 9.14.
        let (tiles_bytes, columns_bytes) = (231_653_376, 231_211_008);
        for (channels, filters) in [(32, 96), (96, 32)] {
            let (image, weight) = (view(&[64, channels, 1, 56, 56]), view(&[filters, channels, 1, 3, 3]));
            let op = Op::Conv(CONV);
            let output = op.outputs(&[image, weight])[0];
            let problem = Convolution::new(&op, &[image, weight], &output, false).unwrap().problem;
            assert_eq!(problem.winograd_bytes(), Some(tiles_bytes));
            assert!(problem.is_winograd_workspace(tiles_bytes));
            assert!(!problem.is_winograd_workspace(columns_bytes));
        }
    }

    #[test]
    fn what_the_library_cannot_read_is_copied() {
        let image = view(&[2, 3, 1, 5, 8]);
        let copied = |layout: Layout| forward(View { layout, ..image }, false).copies[0].is_some();
        assert!(!copied(image.layout));
        assert!(copied(image.layout.flip(4)), "backwards");
        assert!(copied(view(&[1, 3, 1, 5, 8]).layout.expand(Shape::new(&[2, 3, 1, 5, 8]))), "the same twice");
        assert!(copied(view(&[2, 3, 1, 5, 9]).layout.slice(4, 1, 8, 1)), "from the second element on");
        assert!(!copied(view(&[2, 5, 1, 8, 3]).layout.permute(&[0, 4, 2, 1, 3])), "channels last");
    }

    #[test]
    fn gradients_name_the_forwards_tensors() {
        let (image, gradient) = (view(&[2, 3, 1, 5, 7]), view(&[2, 4, 1, 5, 7]));
        let op = Op::ConvBackwardWeight { conv: CONV, kernel: [1, 3, 3] };
        let output = op.outputs(&[image, gradient])[0];
        let problem = Convolution::new(&op, &[image, gradient], &output, false).unwrap().problem;
        assert_eq!((problem.pass, problem.weight), (Pass::Weight, [4, 3, 1, 3, 3]));
        let op = Op::ConvBackwardInput { conv: CONV, size: [1, 5, 7] };
        let weight = view(&[3, 4, 1, 3, 3]);
        let turned = View { layout: weight.layout.permute(&[1, 0, 2, 3, 4]), ..weight };
        let output = op.outputs(&[turned, gradient])[0];
        let convolution = Convolution::new(&op, &[turned, gradient], &output, false).unwrap();
        assert!(convolution.copies[0].is_some(), "weights are row-major");
        assert_eq!(convolution.problem.image.sizes, [2, 3, 1, 5, 7]);
    }
}
