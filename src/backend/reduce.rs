//! Reductions: of one axis, which keeps size one, or of all.

use super::{cast, convert, index, pointwise, run, view};
use crate::op::{ArgReduce, Binary, Compare, Dtype, Op, Reduce, Shape, Unary};
use crate::runtime::Tensor;
use burn_backend::DType;

pub fn dim(kind: Reduce, x: Tensor, axis: usize) -> Tensor {
    run(Op::Reduce { kind, axis }, [x])
}

/// One element, of shape `[1]`. Views that are not one run of memory are reduced axis by axis, innermost first, rather
/// than copied.
pub fn all(kind: Reduce, x: Tensor) -> Tensor {
    let flat = Shape::new(&[x.shape().count()]);
    if let Some(layout) = x.layout().reshape(flat) {
        return dim(kind, x.with_layout(layout), 0);
    }
    let folded = (0..x.shape().rank()).rev().fold(x, |x, axis| match x.shape()[axis] {
        1 => x,
        _ => dim(kind, x, axis),
    });
    view::reshape_to(folded, &[1])
}

/// Of floats, by the op; of integers, the truncated quotient of sum and count.
pub fn mean_dim(x: Tensor, axis: usize) -> Tensor {
    if x.dtype() == Dtype::F32 {
        return dim(Reduce::Mean, x, axis);
    }
    let count = x.shape()[axis] as i64;
    pointwise::scalar(Binary::Div, dim(Reduce::Sum, x, axis), count)
}

pub fn mean(x: Tensor) -> Tensor {
    let count = x.shape().count();
    if x.dtype() == Dtype::F32 && x.layout().reshape(Shape::new(&[count])).is_some() {
        return all(Reduce::Mean, x);
    }
    pointwise::scalar(Binary::Div, all(Reduce::Sum, x), count as i64)
}

pub fn arg(kind: ArgReduce, x: Tensor, axis: usize, dtype: impl Into<DType>) -> Tensor {
    let dtype = convert::dtype(dtype);
    run(Op::ArgReduce { kind, axis, dtype }, [x])
}

/// Indices of the integers' own type.
pub fn arg_like(kind: ArgReduce, x: Tensor, axis: usize) -> Tensor {
    let dtype = x.dtype();
    run(Op::ArgReduce { kind, axis, dtype }, [x])
}

/// The extremes along an axis, and where they are.
pub fn with_indices(kind: ArgReduce, x: Tensor, axis: usize, dtype: impl Into<DType>) -> (Tensor, Tensor) {
    let indices = arg(kind, x.clone(), axis, dtype);
    (index::gather(axis, x, indices.clone()), indices)
}

/// Whether any element is not zero, along an axis or of all.
pub fn any(x: Tensor, axis: Option<usize>) -> Tensor {
    let zero = match x.dtype() {
        Dtype::Bool => pointwise::unary(Unary::Not, x),
        _ => compare_zero(Compare::Equal, x),
    };
    compare_zero(Compare::Equal, product(zero, axis))
}

/// Whether every element is not zero, along an axis or of all.
pub fn every(x: Tensor, axis: Option<usize>) -> Tensor {
    let set = match x.dtype() {
        Dtype::Bool => x,
        _ => compare_zero(Compare::NotEqual, x),
    };
    compare_zero(Compare::NotEqual, product(set, axis))
}

fn compare_zero(kind: Compare, x: Tensor) -> Tensor {
    let zero = convert::scalar(burn_backend::Scalar::Int(0), x.dtype());
    run(Op::CompareScalar(kind, zero), [x])
}

/// One where all bools are set: a product cannot overflow, as counts could, and is right for no elements.
fn product(bools: Tensor, axis: Option<usize>) -> Tensor {
    let numbers = cast(bools, Dtype::I32);
    match axis {
        Some(axis) => dim(Reduce::Prod, numbers, axis),
        None => all(Reduce::Prod, numbers),
    }
}
