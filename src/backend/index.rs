//! Ops whose positions are data.

use super::{cast, convert, fail, pointwise, reduce, run, view};
use crate::op::{Binary, Compare, Dtype, Op, Reduce, Scalar};
use crate::runtime::Tensor;

pub fn gather(axis: usize, x: Tensor, index: Tensor) -> Tensor {
    run(Op::Gather { axis }, [x, index])
}

pub fn scatter_add(axis: usize, x: Tensor, index: Tensor, value: Tensor) -> Tensor {
    run(Op::ScatterAdd { axis }, [x, index, value])
}

pub fn select(x: Tensor, axis: usize, index: Tensor) -> Tensor {
    run(Op::Select { axis }, [x, index])
}

pub fn select_add(x: Tensor, axis: usize, index: Tensor, value: Tensor) -> Tensor {
    run(Op::SelectAdd { axis }, [x, index, value])
}

/// `or` of bools is addition of numbers that are then compared with zero.
pub fn scatter_or(axis: usize, x: Tensor, index: Tensor, value: Tensor) -> Tensor {
    set(scatter_add(axis, cast(x, Dtype::I32), index, cast(value, Dtype::I32)))
}

/// See [`scatter_or`].
pub fn select_or(x: Tensor, axis: usize, index: Tensor, value: Tensor) -> Tensor {
    set(select_add(cast(x, Dtype::I32), axis, index, cast(value, Dtype::I32)))
}

fn set(counts: Tensor) -> Tensor {
    run(Op::CompareScalar(Compare::NotEqual, Scalar::from(0)), [counts])
}

/// Slices of `x` that the last dimension of `index` names by their leading indices.
pub fn gather_nd(x: Tensor, index: Tensor) -> Tensor {
    let (named, rest) = nd_sizes(&x, &index);
    let lead = index.shape().dims()[..index.shape().rank() - 1].to_vec();
    let sizes = [lead, rest.clone()].concat();
    let rows = flat_index(index, &named);
    let flat = view::reshape_to(x, &[named.iter().product(), rest.iter().product()]);
    view::reshape_to(select(flat, 0, rows), &sizes)
}

/// `x` with `value` added to the slices that [`gather_nd`] would read.
pub fn scatter_nd_add(x: Tensor, index: Tensor, value: Tensor) -> Tensor {
    let shape = *x.shape();
    let (named, rest) = nd_sizes(&x, &index);
    let rows = flat_index(index, &named);
    let width = rest.iter().product();
    let value = view::reshape_to(value, &[rows.shape().count(), width]);
    let flat = view::reshape_to(x, &[named.iter().product(), width]);
    view::reshape(select_add(flat, 0, rows, value), shape)
}

/// The sizes that an index names, and those of the slices it names.
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
fn flat_index(index: Tensor, sizes: &[usize]) -> Tensor {
    let count = index.shape().dims()[..index.shape().rank() - 1].iter().product();
    let index = view::reshape_to(index, &[count, sizes.len()]);
    let column = |axis| view::narrow(index.clone(), 1, axis, 1);
    let rows = match sizes.len() {
        // No indices name the whole tensor: row zero each time, which a sum of nothing is.
        0 => reduce::dim(Reduce::Sum, index, 1),
        depth => (1..depth).fold(column(0), |rows, axis| {
            let scale = convert::scalar((sizes[axis] as i64).into(), rows.dtype());
            let scaled = run(Op::BinaryScalar(Binary::Mul, scale), [rows]);
            pointwise::binary(Binary::Add, scaled, column(axis))
        }),
    };
    view::reshape_to(rows, &[count])
}
