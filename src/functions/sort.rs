//! Sorts along an axis, and returns values or their places. Equal elements keep their order, and NaN is above all
//! numbers.

use super::{cast, index, run};
use crate::op::{Dtype, Op};
use crate::runtime::Tensor;

/// The first `count` elements in order, or all.
#[track_caller]
pub fn values(x: Tensor, axis: usize, descending: bool, count: Option<usize>) -> Tensor {
    let count = count.unwrap_or(x.shape()[axis]);
    run(Op::Sort { axis, descending, count }, [x])
}

/// Where the first `count` elements in order are, or all.
#[track_caller]
pub fn indices(x: Tensor, axis: usize, descending: bool, count: Option<usize>, dtype: Dtype) -> Tensor {
    index::as_indices(dtype, |dtype| argsort(x, axis, descending, count, dtype))
}

/// The elements in order, and where they were.
#[track_caller]
pub fn both(x: Tensor, axis: usize, descending: bool, dtype: Dtype) -> (Tensor, Tensor) {
    let indices = argsort(x.clone(), axis, descending, None, index::made_for(dtype));
    (index::gather(axis, x, indices.clone()), cast(indices, dtype))
}

#[track_caller]
fn argsort(x: Tensor, axis: usize, descending: bool, count: Option<usize>, dtype: Dtype) -> Tensor {
    let count = count.unwrap_or(x.shape()[axis]);
    run(Op::ArgSort { axis, descending, count, dtype }, [x])
}
