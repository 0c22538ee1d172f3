//! Ops as data: what is computed, on what shapes, at what cost, and what it reads. Pure; imports nothing of ours.
//!
//! An [`Op`] is a small `Copy + Eq + Hash` value without tensors or closures, so it can be submitted, replayed
//! (recompute), priced, predicted and traced. Everything the rest of the crate asks of an op is a total function here.
//!
//! ```
//! use burn_overcommit::op::{Dtype, Op, Shape, Unary, View};
//!
//! let op = Op::Unary(Unary::Exp);
//! let input = View::contiguous(Dtype::F32, Shape::new(&[2, 3]));
//! assert_eq!((op.name(), op.outputs(&[input])[0].size_bytes()), ("exp", 24));
//! assert!(op.in_place(0) && op.replays_exactly());
//! ```

mod check;
mod dtype;
mod encoding;
mod form;
mod fused;
mod kinds;
mod layout;
pub mod lower;
mod named;
mod rules;
mod traced;
mod work;

pub use check::Misfit;
pub use dtype::{Dtype, Scalar};
pub use encoding::{Encoding, FloatFormat, InParts, Origin, SCALED, Taps, scale_words};
pub use form::{Counts, FormParts, PIECE, Planes, ROW, Sparse, Tally};
pub use fused::{
    BINARY_STEPS, Ending, MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, MAX_SCALARS, MAX_STEPS, Program, ROW_STEPS,
    Source, Step, StepKind, StepScalars, UNARY_STEPS,
};
pub use kinds::{
    ArgReduce, Attention, AttentionDropout, Binary, Compare, Conv, Cumulative, Deform2d, Distribution,
    GridPadding, GridSample, Interpolation, Norm, Pool2d, Reduce, Resize, Softmax, Unary, Update,
    words_below,
};
pub use layout::{Layout, MAX_ELEMENTS, MAX_RANK, Shape};
pub use traced::{Facts, Traced, bytes_view};
pub use work::Work;

use smallvec::SmallVec;

/// The most tensors that an op of ours reads; a fused one, and one of a recorded program, may read more.
pub const MAX_INPUTS: usize = 4;
/// The most tensors that an op of ours makes; a fused one may make more.
pub const MAX_OUTPUTS: usize = 2;

/// Something for each tensor an op reads.
pub type Inputs<T> = SmallVec<[T; MAX_INPUTS]>;
/// Something for each tensor an op makes.
pub type PerOutput<T> = SmallVec<[T; MAX_OUTPUTS]>;

/// A tensor as an op sees it: element type and layout, not where the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Element type.
    pub dtype: Dtype,
    /// Where each element lies in its storage.
    pub layout: Layout,
}

impl View {
    /// A row-major view of a whole storage.
    pub fn contiguous(dtype: Dtype, shape: Shape) -> Self {
        View { dtype, layout: Layout::contiguous(shape) }
    }

    /// The shape of the layout.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// Elements times their size; what a contiguous copy of this view would take.
    pub fn size_bytes(&self) -> usize {
        self.shape().count() * self.dtype.size_bytes()
    }

    /// The same without what is there more than once, since a dimension has no stride.
    pub fn distinct_bytes(&self) -> usize {
        let dims = self.shape().dims().iter().zip(self.layout.strides());
        let distinct = dims.map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size });
        distinct.product::<usize>() * self.dtype.size_bytes()
    }
}

/// Elements of a mask that [`Op::CountSet`] counts together.
pub const COUNTED_RUN: usize = 32 * 1024;

/// What an op makes: always a contiguous storage of its own.
pub type Outputs = PerOutput<View>;

/// What an op needs to know of one input's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reads {
    /// The values.
    Values,
    /// Only whether each value is greater than zero.
    Signs,
    /// Only the shape.
    Nothing,
}

/// One computation. Inputs are named in the order they are passed.
///
/// Outputs are contiguous. Elementwise inputs have equal shapes: the caller broadcasts by layout (zero strides).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `() -> [shape]`, every element `value`.
    Fill {
        /// Shape of the output.
        shape: Shape,
        /// Element type of the output.
        dtype: Dtype,
        /// The value.
        value: Scalar,
    },
    /// `() -> [shape]`, elements of any value: for ops that write them all before one is read.
    Unset {
        /// Shape of the output.
        shape: Shape,
        /// Element type of the output.
        dtype: Dtype,
    },
    /// `() -> [count]`: `start + i * step`, integers.
    Arange {
        /// Number of elements.
        count: usize,
        /// Element type of the output.
        dtype: Dtype,
        /// First element.
        start: i64,
        /// Difference of neighbours.
        step: i64,
    },
    /// `() -> [shape]`: counter-based random numbers (Philox 4x32-10), a pure function of `seed` and position.
    Random {
        /// Shape of the output.
        shape: Shape,
        /// Element type of the output.
        dtype: Dtype,
        /// What the numbers follow.
        distribution: Distribution,
        /// Key of the generator; every op has its own.
        seed: u64,
    },
    /// `(x)`: a contiguous copy of a view, converted to `dtype`. Floats to integers truncate and saturate; anything
    /// to bool is `x != 0`.
    Copy {
        /// Element type of the output.
        dtype: Dtype,
    },
    /// `(x)`, elementwise.
    Unary(Unary),
    /// `(a, b)`, elementwise, of one dtype.
    Binary(Binary),
    /// `(a)`: `a op scalar`, elementwise.
    BinaryScalar(Binary, Scalar),
    /// `(x)`: `x` between the first and the second scalar, elementwise; NaN stays.
    Clamp(Scalar, Scalar),
    /// `(a, b) -> bool`, elementwise.
    Compare(Compare),
    /// `(a) -> bool`: `a op scalar`, elementwise.
    CompareScalar(Compare, Scalar),
    /// `(mask, a, b)`: `mask ? a : b`, elementwise.
    Where,
    /// `(x, mask)`: `mask ? value : x`, elementwise.
    MaskFill(Scalar),
    /// `(x)`: `axis` shrinks to one.
    Reduce {
        /// What is kept of the axis.
        kind: Reduce,
        /// The axis.
        axis: usize,
    },
    /// `(x) -> dtype`: the index of the extreme along `axis`, which shrinks to one; the first among equals. With
    /// `values`, the extremes come first and the indices second.
    ArgReduce {
        /// Which extreme.
        kind: ArgReduce,
        /// The axis.
        axis: usize,
        /// Integer type of the output.
        dtype: Dtype,
        /// Whether the extremes are asked for too.
        values: bool,
    },
    /// `(x)`: `e^x / sum(e^x)` along `axis`, or its logarithm.
    Softmax {
        /// Which.
        kind: Softmax,
        /// The axis.
        axis: usize,
    },
    /// `(scores[.., queries, keys], mask or nothing)`: the softmax along the keys of `scores * scale`, where scores that
    /// are masked do not count; a row in which none does becomes zeros.
    AttentionWeights {
        /// Factor of the scores.
        scale: Scalar,
        /// Whether a query sees only the keys up to its own, the last query the last key.
        causal: bool,
    },
    /// `(query[b, h, q, w], key[b, h, k, w], value[b, h, k, v], mask[b, h, q, k] or nothing) -> out[b, q, h, v], sums[b, h, q]`:
    /// for each query the values, weighed by the softmax of its scores times `scale`, and the logarithm of the sum by which
    /// the weights were divided, in `f32`; infinite where no key counts, and the output zero. The elements of a row lie
    /// side by side.
    Attention(Attention),
    /// `(query, key, value, out[b, h, q, v], sums[b, h, q], gradient[b, h, q, v], mask or nothing) -> [b, q, h, w],
    /// [b, k, h, w], [b, k, h, v]`: the gradients of query, key and value.
    AttentionBackward(Attention),
    /// `(output, gradient)`: the gradient of what went into a softmax along `axis`, times `scale`; with
    /// [`Softmax::Plain`] and the scale of the scores, also that of attention weights.
    SoftmaxBackward {
        /// The forward's.
        kind: Softmax,
        /// The axis.
        axis: usize,
        /// Factor of the gradient.
        scale: Scalar,
    },
    /// `(x, gamma, beta or nothing)`: `(x - mean) / sqrt(variance + epsilon) * gamma + beta` along the last axis, or the
    /// same without a mean.
    Norm {
        /// Which.
        kind: Norm,
        /// Added to the variance.
        epsilon: Scalar,
    },
    /// `(x[rows, width], gamma[width], gradient[rows, width])`: the gradient of `x`; with `weights`, also those of gamma
    /// and, of a layer norm, beta: `[2, width]`, or `[1, width]`.
    NormBackward {
        /// The forward's.
        kind: Norm,
        /// The forward's.
        epsilon: Scalar,
        /// Whether the second output is asked for.
        weights: bool,
    },
    /// `(x) -> real, imaginary`: the first `length / 2 + 1` of the Fourier coefficients along `axis` of `x`, cut or
    /// extended by zeros to `length`, a power of two.
    RealFft {
        /// The axis.
        axis: usize,
        /// How many elements are transformed.
        length: usize,
    },
    /// `(real, imaginary)`: the `length` reals along `axis` whose first coefficients are given; those missing are zero.
    InverseRealFft {
        /// The axis.
        axis: usize,
        /// How many elements the output has, a power of two.
        length: usize,
    },
    /// `(destination, value)`: `destination` with a region replaced. Element `i` of `value` goes to the destination's
    /// index `starts[k] + i[k] * steps[k]`.
    SliceAssign {
        /// First index per dimension.
        starts: [usize; MAX_RANK],
        /// Step per dimension; may be negative.
        steps: [isize; MAX_RANK],
    },
    /// `(x, index)`: `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `axis`; shaped as `index`. An index out of
    /// range is an error.
    Gather {
        /// The axis.
        axis: usize,
    },
    /// `(x, index, value)`: `x` with each element that `index` names along `axis` updated by `value`, in index order.
    Scatter {
        /// The axis.
        axis: usize,
        /// What becomes of an element.
        update: Update,
    },
    /// `(x, index[n])`: the slices of `x` along `axis` that a one-dimensional index names.
    Select {
        /// The axis.
        axis: usize,
    },
    /// `(x, index[n], value)`: `x` with the slices that the index names updated by those of `value`, in index order.
    SelectUpdate {
        /// The axis.
        axis: usize,
        /// What becomes of an element.
        update: Update,
    },
    /// `(x)`: what the elements along `axis` come to, up to each. Halves are added up in 32 bits.
    Cumulative {
        /// How they come together.
        kind: Cumulative,
        /// The axis.
        axis: usize,
    },
    /// `(x)`: the first `count` elements along `axis` once they are in order: negative zero before zero, NaN above all
    /// numbers.
    Sort {
        /// The axis.
        axis: usize,
        /// Largest first.
        descending: bool,
        /// How many of the first are wanted.
        count: usize,
    },
    /// `(x) -> dtype`: where along `axis` the elements of [`Sort`](Op::Sort) are; equal ones in their order.
    ArgSort {
        /// The axis, shorter than 2^32.
        axis: usize,
        /// Largest first.
        descending: bool,
        /// How many of the first are wanted.
        count: usize,
        /// Integer type of the output.
        dtype: Dtype,
    },
    /// `(mask) -> i64[runs]`: how many bools are set in each run of [`COUNTED_RUN`], in row-major order.
    CountSet,
    /// `(mask, ends[runs]) -> [count, rank]`: the indices of the bools that are set. `ends` are the running sums of
    /// [`CountSet`](Op::CountSet), the last of them `count`; where they are not, indices that are not found have any value.
    ArgWhere {
        /// How many are set.
        count: usize,
        /// Integer type of the output.
        dtype: Dtype,
    },
    /// `(a[.., m, k], b[.., k, n], bias[n] or nothing) -> [.., m, n]`; batch dimensions are equal, and the bias is added
    /// to every row.
    Matmul,
    /// `(x[n, c, d, h, w], weight[o, c / groups, kd, kh, kw], bias[o] or nothing) -> [n, o, od, oh, ow]`.
    Conv(Conv),
    /// `(weight, gradient[n, o, od, oh, ow]) -> [n, c, d, h, w]`.
    ConvBackwardInput {
        /// The forward convolution.
        conv: Conv,
        /// Depth, height and width of the forward's input.
        size: [usize; 3],
    },
    /// `(x, gradient[n, o, od, oh, ow]) -> [o, c / groups, kd, kh, kw]`, images added in order.
    ConvBackwardWeight {
        /// The forward convolution.
        conv: Conv,
        /// Depth, height and width of the kernel.
        kernel: [usize; 3],
    },
    /// `(x[n, c, h, w]) -> [n, c, oh, ow]` and, if asked, the flat index of each maximum in its `h * w` plane,
    /// -1 under a window that lies outside.
    MaxPool2d {
        /// The window.
        pool: Pool2d,
        /// Integer type of the second output.
        indices: Option<Dtype>,
    },
    /// `(gradient, indices) -> [n, c, h, w]`.
    MaxPool2dBackward {
        /// The window.
        pool: Pool2d,
        /// Height and width of the forward's input.
        size: [usize; 2],
    },
    /// `(x[n, c, h, w]) -> [n, c, oh, ow]`.
    AvgPool2d(Pool2d),
    /// `(gradient) -> [n, c, h, w]`.
    AvgPool2dBackward {
        /// The window.
        pool: Pool2d,
        /// Height and width of the forward's input.
        size: [usize; 2],
    },
    /// `(x[n, c, h, w]) -> [n, c, size]`: window `i` covers `floor(i * h / oh) .. ceil((i + 1) * h / oh)`.
    AdaptiveAvgPool2d {
        /// Height and width of the output.
        size: [usize; 2],
    },
    /// `(gradient[n, c, oh, ow]) -> [n, c, size]`.
    AdaptiveAvgPool2dBackward {
        /// Height and width of the forward's input.
        size: [usize; 2],
    },
    /// `(x[n, c, h, w]) -> [n, c, size]`.
    Interpolate {
        /// What is between pixels.
        resize: Resize,
        /// Height and width of the output.
        size: [usize; 2],
    },
    /// `(gradient[n, c, oh, ow]) -> [n, c, size]`.
    InterpolateBackward {
        /// The forward's.
        resize: Resize,
        /// Height and width of the forward's input.
        size: [usize; 2],
    },
    /// `(log_probs[steps, n, classes], targets[n, labels], input_lengths[n], target_lengths[n]) -> [n]`: minus the
    /// logarithm of the probability of each target.
    CtcLoss {
        /// The class that stands for no label.
        blank: usize,
    },
    /// `(log_probs, targets, input_lengths, target_lengths) -> [steps, n, classes]`: the gradient of each loss with
    /// respect to the log-probabilities.
    CtcLossBackward {
        /// The forward's.
        blank: usize,
    },
    /// `(x[n, c, h, w], grid[n, oh, ow, 2]) -> [n, c, oh, ow]`; a place is `(x, y)`, -1 to 1 across the image.
    GridSample(GridSample),
    /// `(x[n, c, h, w], offset[n, 2 * groups * kh * kw, oh, ow], mask[n, groups * kh * kw, oh, ow] or nothing)
    /// -> [c * kh * kw, n * oh * ow]`: what a deformable convolution multiplies by its weights. Not for halves.
    DeformColumns(Deform2d),
    /// `(x, offset, gradient of the columns, mask or nothing) -> gradients of offset and, if there is one, mask`.
    DeformBackwardOffset(Deform2d),
    /// `(offset, gradient of the columns, mask or nothing) -> [n, c, size]`: the gradient of the image.
    DeformBackwardImage {
        /// The window.
        deform: Deform2d,
        /// Height and width of the image.
        size: [usize; 2],
    },
    /// `(x[n]) -> u32[words]`: the values in fewer bits. Where they have an [overflow](Encoding::overflow), it is a
    /// second input, in the host tier, that is written.
    Encode(Encoding),
    /// `(words) -> [count]`: the values that were encoded, or what is left of them. Any words will do: what they are not
    /// meant to hold becomes values that mean nothing. A second input as in [`Op::Encode`].
    Decode {
        /// How they are encoded; not [`Encoding::Signs`].
        encoding: Encoding,
        /// Element type of the output.
        dtype: Dtype,
        /// Number of elements.
        count: usize,
    },
    /// `(x[n], u32[1])`: writes into its second input, which is in the host tier, what is counted of the values.
    Tally(Tally),
    /// `(signs: u32[words], gradient)`: [`Binary::ReluBackward`] of what the signs were encoded from, whole and row-major.
    ReluBackwardSigns,
    /// `(gradient, words) -> [n, c, h, w]`: [`Op::MaxPool2dBackward`] of the indices that were encoded, whole and row-major.
    MaxPool2dBackwardTaps {
        /// How they were encoded.
        taps: Taps,
        /// Height and width of the forward's input.
        size: [usize; 2],
    },
    /// `(words, gradient) -> [o, c / groups, kd, kh, kw]`: [`Op::ConvBackwardWeight`] of the images that were encoded, whole and
    /// row-major, of `f32` or `f64`. A third input as the second in [`Op::Encode`].
    ConvBackwardWeightEncoded {
        /// The forward convolution.
        conv: Conv,
        /// Depth, height and width of the kernel.
        kernel: [usize; 3],
        /// Channels, depth, height and width of an image.
        image: [usize; 4],
        /// How they were encoded.
        encoding: InParts,
    },
    /// `(x, ..) -> one or more, shaped as the inputs`: several elementwise ops of floats in one pass, and perhaps the sum, mean or
    /// maximum of what one of them makes.
    Fused {
        /// The steps.
        program: Program,
        /// The bits of their scalars as `f64`; those that there are not are zero.
        scalars: [u64; MAX_SCALARS],
    },
    /// An op of a recorded program, of any number of inputs and outputs: for engines that compute nothing.
    Traced(Traced),
}
