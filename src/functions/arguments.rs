//! Arguments of functions as programs give them. What an op needs may depend on the tensor, too.

use smallvec::SmallVec;

use super::fail;
use crate::op::{Conv, Dtype, Layout, Scalar};

/// A number that is not yet of any tensor's element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A float.
    Float(f64),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A bool.
    Bool(bool),
}

impl Number {
    /// The number for tensors of `dtype`. Floats stay floats and the rest are integers, so that equal ops are equal values.
    pub fn of(self, dtype: Dtype) -> Scalar {
        match self {
            _ if dtype.is_float() => Scalar::from(self.as_float()),
            Number::Float(float) if float >= 0.0 => Scalar::from(float as u64),
            Number::Float(float) => Scalar::from(float as i64),
            Number::Int(integer) => Scalar::from(integer),
            Number::UInt(integer) => Scalar::from(integer),
            Number::Bool(bit) => Scalar::from(i64::from(bit)),
        }
    }

    /// The number as a float.
    pub fn as_float(self) -> f64 {
        match self {
            Number::Float(float) => float,
            Number::Int(integer) => integer as f64,
            Number::UInt(integer) => integer as f64,
            Number::Bool(bit) => f64::from(u8::from(bit)),
        }
    }

    /// Whether the number is not zero.
    pub fn as_bool(self) -> bool {
        self.as_float() != 0.0
    }
}

impl From<f64> for Number {
    fn from(float: f64) -> Self {
        Number::Float(float)
    }
}

impl From<i32> for Number {
    fn from(integer: i32) -> Self {
        Number::Int(integer.into())
    }
}

impl From<bool> for Number {
    fn from(bit: bool) -> Self {
        Number::Bool(bit)
    }
}

/// A distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Random {
    /// What is usual for the kind of elements.
    Usual,
    /// Uniform between two numbers.
    Uniform(f64, f64),
    /// One with this probability, else zero.
    Bernoulli(f64),
    /// Normal, with this mean and standard deviation.
    Normal(f64, f64),
}

/// A range of an axis. Negative numbers count from its end; with a negative step the range is walked from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The first index.
    pub start: isize,
    /// The index after the last; without one, the axis' end.
    pub end: Option<isize>,
    /// The distance of the indices taken, not zero.
    pub step: isize,
}

/// One slice for each of the first axes of a tensor.
pub type Slices = SmallVec<[Slice; 4]>;

/// What a slice takes of an axis.
pub(super) struct Region {
    pub start: usize,
    pub size: usize,
    pub step: isize,
}

impl Slice {
    /// The whole axis.
    pub const FULL: Slice = Slice { start: 0, end: None, step: 1 };

    /// `size` indices from `start` on.
    pub fn of(start: usize, size: usize) -> Self {
        Slice { start: start as isize, end: Some((start + size) as isize), step: 1 }
    }

    /// What the slice takes of an axis of `length`.
    pub(super) fn region(self, length: usize) -> Region {
        let index = |at: isize| match at {
            0.. => at.unsigned_abs().min(length),
            _ => length.saturating_sub(at.unsigned_abs()),
        };
        let (start, end) = (index(self.start), self.end.map_or(length, index));
        let size = end.saturating_sub(start).div_ceil(self.step.unsigned_abs().max(1));
        let start = match (size, self.step < 0) {
            (0, _) => 0,
            (_, true) => end - 1,
            (_, false) => start,
        };
        Region { start, size, step: self.step }
    }
}

/// A convolution whose zeros before and after the image may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The convolution, with the zeros that are the same on both sides.
    pub conv: Conv,
    /// More zeros before and after `[depth, height, width]`.
    pub border: [[usize; 2]; 3],
}

impl From<Conv> for Convolution {
    fn from(conv: Conv) -> Self {
        Convolution { conv, border: [[0; 2]; 3] }
    }
}

/// A transposed convolution: the gradient of a convolution with respect to its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transposed {
    /// The convolution whose gradient it is.
    pub conv: Conv,
    /// Added to the output's size at its end.
    pub padding_out: [usize; 3],
}

/// `values` for the innermost of three dimensions, `missing` for the others.
pub fn spatial<T: Copy, const N: usize>(values: [T; N], missing: T) -> [T; 3] {
    let mut all = [missing; 3];
    all[3 - N..].copy_from_slice(&values);
    all
}

/// How windows are taken from images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Step of the window.
    pub stride: [usize; 2],
    /// Zeros around the image.
    pub padding: [usize; 2],
    /// Distance of the window's elements.
    pub dilation: [usize; 2],
}

/// How a deformable convolution moves over images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deforming {
    /// How windows are taken.
    pub windows: Windows,
    /// Channels are split into this many groups, as in a convolution.
    pub weight_groups: usize,
    /// Channels are split into this many groups that share offsets.
    pub offset_groups: usize,
}

/// Options of an attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// Factor of the scores; without one, the root of the queries' width divides them.
    pub scale: Option<f64>,
    /// `softcap * tanh(scores / softcap)` in place of the scores.
    pub softcap: Option<f64>,
    /// A query counts no keys after its own place.
    pub is_causal: bool,
    /// The first query is at the place of the first key, and not the last at that of the last.
    pub from_first: bool,
}

/// Rows and columns of the last two dimensions.
#[track_caller]
pub(crate) fn plane(layout: &Layout) -> [usize; 2] {
    match layout.shape().dims() {
        [.., rows, columns] => [*rows, *columns],
        dims => fail(format!("burn-overcommit: at least two dimensions are needed, not {dims:?}")),
    }
}
