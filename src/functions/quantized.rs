//! Quantized values: integers of eight bits, and the scales that give their values, one for all elements or one for each block of
//! elements that follow each other.

use super::{cast, fail, pointwise, run, view};
use crate::op::{Binary, Dtype, Op, Scalar, Shape, Unary};
use crate::runtime::Tensor;

/// How integers stand for floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blocks {
    /// Elements that have a scale in common; all, if there is none.
    pub size: Option<usize>,
    /// The least and the greatest integer.
    pub range: [f32; 2],
}

/// The nearest integers, clamped to the range, and the scales, one for each block.
#[track_caller]
pub fn quantize(x: Tensor, blocks: Blocks, scales: Tensor) -> [Tensor; 2] {
    let shape = *x.shape();
    // No number is a multiple of zero.
    let scales = cast(view::reshape(scales.clone(), Shape::new(&[scales.shape().count()])), Dtype::F32);
    let scales = pointwise::scalar(Binary::Max, scales, f64::from(f32::MIN_POSITIVE));
    let x = in_blocks(cast(x, Dtype::F32), blocks);
    let multiples = pointwise::binary(Binary::Div, x, per_block(&scales));
    let [least, greatest] = blocks.range.map(|limit| Scalar::from(f64::from(limit)));
    let rounded = run(Op::Clamp(least, greatest), [pointwise::unary(Unary::Round, multiples)]);
    [view::reshape(cast(rounded, Dtype::I8), shape), scales]
}

/// The values as floats.
#[track_caller]
pub fn dequantize(integers: Tensor, blocks: Blocks, scales: &Tensor, dtype: Dtype) -> Tensor {
    let shape = *integers.shape();
    let integers = in_blocks(cast(integers, Dtype::F32), blocks);
    let values = pointwise::binary(Binary::Mul, integers, per_block(scales));
    cast(view::reshape(values, shape), dtype)
}

/// `[blocks, elements of a block]`.
#[track_caller]
fn in_blocks(x: Tensor, blocks: Blocks) -> Tensor {
    let count = x.shape().count();
    let size = blocks.size.unwrap_or(count.max(1));
    if !count.is_multiple_of(size) {
        let shape = x.shape();
        fail(format!(
            "burn-overcommit: {shape:?} is not a number of blocks of {size} elements; choose a block that divides it"
        ));
    }
    view::reshape_to(x, &[count / size, size])
}

/// The scales beside their blocks.
#[track_caller]
fn per_block(scales: &Tensor) -> Tensor {
    view::reshape_to(scales.clone(), &[scales.shape().count(), 1])
}
