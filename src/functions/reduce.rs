//! Reductions of one axis, which keeps size one, or of all axes.

use super::{cast, fail, index, ok, run, view};
use crate::op::{ArgReduce, Cumulative, Dtype, Op, Reduce, Shape};
use crate::runtime::{self, Tensor};

/// Along an axis of size one a reduction is the tensor itself, unless it is of absolute values.
#[track_caller]
pub fn dim(kind: Reduce, x: Tensor, axis: usize) -> Tensor {
    let has_value_of_nothing = match kind {
        Reduce::Max | Reduce::Min | Reduce::MaxAbs => x.dtype().is_bool(),
        Reduce::Mean => !x.dtype().is_integer(),
        _ => true,
    };
    refuse_nothing(has_value_of_nothing, kind.name(), &x, axis);
    if x.shape()[axis] == 1 && kind != Reduce::MaxAbs {
        return x;
    }
    run(Op::Reduce { kind, axis }, [x])
}

/// Extremes of no elements are no number, and neither is a mean of no integers.
#[track_caller]
fn refuse_nothing(has_value: bool, name: &str, x: &Tensor, axis: usize) {
    if !has_value && x.shape()[axis] == 0 {
        fail(format_args!(
            "burn-overcommit: {name} of {:?} along axis {axis} has no elements; reduce an axis that has some",
            x.shape()
        ));
    }
}

/// A reduction to one element, of shape `[1]`. A view that is not one run of memory in any order is reduced along one
/// axis first, which leaves a run; if that would round twice, the view is copied instead.
#[track_caller]
pub fn all(kind: Reduce, x: Tensor) -> Tensor {
    let x = view::in_memory_order(x);
    let flat = Shape::new(&[x.shape().count()]);
    if let Some(layout) = x.layout().reshape(flat) {
        return dim(kind, x.with_layout(layout), 0);
    }
    let dtype = x.dtype();
    if dtype.is_half() || (kind == Reduce::Mean && dtype.is_integer()) {
        return all(kind, run(Op::Copy { dtype }, [x]));
    }
    let inner = (0..x.shape().rank()).rev().find(|&axis| x.shape()[axis] > 1);
    all(kind, dim(kind, x, inner.unwrap_or(0)))
}

#[track_caller]
pub fn arg(kind: ArgReduce, x: Tensor, axis: usize, dtype: Dtype) -> Tensor {
    refuse_nothing(false, kind.name(), &x, axis);
    index::as_indices(dtype, |dtype| run(Op::ArgReduce { kind, axis, dtype, values: false }, [x]))
}

/// Indices of the integers' own type.
#[track_caller]
pub fn arg_like(kind: ArgReduce, x: Tensor, axis: usize) -> Tensor {
    let dtype = x.dtype();
    arg(kind, x, axis, dtype)
}

/// The extremes along an axis, and where they are.
#[track_caller]
pub fn with_indices(kind: ArgReduce, x: Tensor, axis: usize, dtype: Dtype) -> (Tensor, Tensor) {
    refuse_nothing(false, kind.name(), &x, axis);
    let op = Op::ArgReduce { kind, axis, dtype: index::made_for(dtype), values: true };
    let [values, indices] = ok(runtime::run_pair(op, [x]));
    (values, cast(indices, dtype))
}

/// Running results along an axis.
#[track_caller]
pub fn cumulative(kind: Cumulative, x: Tensor, axis: usize) -> Tensor {
    run(Op::Cumulative { kind, axis }, [x])
}

/// Whether any element is not zero, along an axis or of all.
#[track_caller]
pub fn any(x: Tensor, axis: Option<usize>, store: Dtype) -> Tensor {
    bools(Reduce::Max, x, axis, store)
}

/// Whether every element is not zero, along an axis or of all.
#[track_caller]
pub fn every(x: Tensor, axis: Option<usize>, store: Dtype) -> Tensor {
    bools(Reduce::Min, x, axis, store)
}

/// The largest bool says whether there is one that is set, the smallest whether all are.
#[track_caller]
fn bools(kind: Reduce, x: Tensor, axis: Option<usize>, store: Dtype) -> Tensor {
    let set = cast(x, Dtype::Bool);
    let out = match axis {
        Some(axis) => dim(kind, set, axis),
        None => all(kind, set),
    };
    cast(out, store)
}
