//! Sorts along an axis, and returns values or their places. Equal elements keep their order, and NaN is above all
//! numbers.

use super::{cast, fail, index, run};
use crate::op::{Dtype, Op};
use crate::runtime::Tensor;

/// The first `count` elements in order, or all.
#[track_caller]
pub fn values(x: Tensor, axis: usize, descending: bool, count: Option<usize>) -> Tensor {
    let count = first(&x, axis, count);
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
    if u32::try_from(x.shape()[axis]).is_err() {
        fail(format!("burn-overcommit: argsort of {:?}: axis {axis} is not shorter than 2^32", x.shape()));
    }
    let count = first(&x, axis, count);
    run(Op::ArgSort { axis, descending, count, dtype }, [x])
}

/// How many elements of the axis are wanted.
#[track_caller]
fn first(x: &Tensor, axis: usize, count: Option<usize>) -> usize {
    let size = x.shape()[axis];
    match count {
        Some(count) if count > size => fail(format!(
            "burn-overcommit: the first {count} of axis {axis} of {:?} were asked for",
            x.shape()
        )),
        Some(count) => count,
        None => size,
    }
}
