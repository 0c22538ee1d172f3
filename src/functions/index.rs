//! Ops that take positions as data.

use super::arguments::Number;
use super::{cast, fail, ok, pointwise, run, view};
use crate::op::{Binary, Cumulative, Dtype, Op, Reduce, Update};
use crate::runtime::{self, Tensor};

/// Indices in one of the two types that ops take.
#[track_caller]
fn indices(index: Tensor) -> Tensor {
    match index.dtype() {
        Dtype::I64 | Dtype::I32 => index,
        Dtype::U64 | Dtype::U32 => cast(index, Dtype::I64),
        _ => cast(index, Dtype::I32),
    }
}

/// Indices that an op makes, converted to any type of integer.
#[track_caller]
pub fn as_indices(dtype: Dtype, make: impl FnOnce(Dtype) -> Tensor) -> Tensor {
    cast(make(made_for(dtype)), dtype)
}

/// The type of indices that an op makes where `dtype` is wanted.
#[track_caller]
pub fn made_for(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::I64 | Dtype::U64 | Dtype::U32 => Dtype::I64,
        _ => Dtype::I32,
    }
}

#[track_caller]
pub fn gather(axis: usize, x: Tensor, index: Tensor) -> Tensor {
    run(Op::Gather { axis }, [x, indices(index)])
}

/// Adding bools is `or`.
#[track_caller]
pub fn scatter(axis: usize, x: Tensor, index: Tensor, value: Tensor, update: Update) -> Tensor {
    run(Op::Scatter { axis, update }, [x, indices(index), value])
}

#[track_caller]
pub fn select(x: Tensor, axis: usize, index: Tensor) -> Tensor {
    run(Op::Select { axis }, [x, indices(index)])
}

/// Adding bools is `or`.
#[track_caller]
pub fn select_update(x: Tensor, axis: usize, index: Tensor, value: Tensor, update: Update) -> Tensor {
    run(Op::SelectUpdate { axis, update }, [x, indices(index), value])
}

/// Slices of `x` that the last dimension of `index` names by their leading indices.
#[track_caller]
pub fn gather_nd(x: Tensor, index: Tensor) -> Tensor {
    let (named, rest) = nd_sizes(&x, &index);
    let lead = index.shape().dims()[..index.shape().rank() - 1].to_vec();
    let sizes = [lead, rest.clone()].concat();
    let rows = flat_index(index, &named);
    let flat = view::reshape_to(x, &[named.iter().product(), rest.iter().product()]);
    view::reshape_to(select(flat, 0, rows), &sizes)
}

/// `x` with the slices that [`gather_nd`] would read, each updated by a slice of `value`, in order.
#[track_caller]
pub fn scatter_nd(x: Tensor, index: Tensor, value: Tensor, update: Update) -> Tensor {
    let shape = *x.shape();
    let (named, rest) = nd_sizes(&x, &index);
    let rows = flat_index(index, &named);
    let width = rest.iter().product();
    let value = view::reshape_to(value, &[rows.shape().count(), width]);
    let flat = view::reshape_to(x, &[named.iter().product(), width]);
    view::reshape(run(Op::SelectUpdate { axis: 0, update }, [flat, rows, value]), shape)
}

/// The indices of the bools that are set. Waits for the device, since their number is known only once they are
/// counted.
#[track_caller]
pub fn argwhere(mask: Tensor, dtype: Dtype) -> Tensor {
    let mask = cast(mask, Dtype::Bool);
    let ends = run(Op::CountSet, [mask.clone()]);
    let ends = run(Op::Cumulative { kind: Cumulative::Sum, axis: 0 }, [ends]);
    let count = match ends.shape()[0] {
        0 => 0,
        runs => {
            let last = view::narrow(ends.clone(), 0, runs - 1, 1);
            ok(runtime::read_count("argwhere", last, mask.shape().count()))
        }
    };
    as_indices(dtype, |dtype| run(Op::ArgWhere { count, dtype }, [mask, ends]))
}

/// The sizes that an index names, and those of the slices it names.
#[track_caller]
fn nd_sizes(x: &Tensor, index: &Tensor) -> (Vec<usize>, Vec<usize>) {
    match index.shape().dims().last() {
        Some(&depth) if depth <= x.shape().rank() => {
            let (named, rest) = x.shape().dims().split_at(depth);
            (named.to_vec(), rest.to_vec())
        }
        _ => fail(format!(
            "burn-overcommit: an index of shape {:?} does not fit {:?}",
            index.shape(),
            x.shape()
        )),
    }
}

/// Row-major positions in `sizes`, one per entry of all but the last dimension of `index`.
#[track_caller]
fn flat_index(index: Tensor, sizes: &[usize]) -> Tensor {
    let index = indices(index);
    let count = index.shape().dims()[..index.shape().rank() - 1].iter().product();
    let index = view::reshape_to(index, &[count, sizes.len()]);
    let column = |axis| view::narrow(index.clone(), 1, axis, 1);
    let rows = match sizes.len() {
        // An index of no numbers names the whole tensor, which is row zero each time. A sum of nothing gives these
        // zeros.
        0 => run(Op::Reduce { kind: Reduce::Sum, axis: 1 }, [index]),
        depth => (1..depth).fold(column(0), |rows, axis| {
            let scale = Number::Int(sizes[axis] as i64).of(rows.dtype());
            let scaled = run(Op::BinaryScalar(Binary::Mul, scale), [rows]);
            pointwise::binary(Binary::Add, scaled, column(axis))
        }),
    };
    view::reshape_to(rows, &[count])
}
