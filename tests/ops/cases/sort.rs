//! Sorting, and the first of what is sorted.

use burn_backend::IntDType::I64;

use crate::case::{Fill::*, ROWS};
use crate::value::Value;

cases! {
    [float int] sort(x: own(Any, ROWS); axis) => sort(x, axis, false);
    [float int] sort: descending(x: own(Any, ROWS); axis) => sort(x, axis, true);
    [float] argsort(x: own(Any, ROWS); axis) -> int => argsort(x, axis, false, I64);
    [float] argsort: descending(x: own(Any, ROWS); axis) -> int => argsort(x, axis, true, I64);
    [int] argsort(x: own(Any, ROWS); axis) => argsort(x, axis, false);
    [int] argsort: descending(x: own(Any, ROWS); axis) => argsort(x, axis, true);
    [float] sort_with_indices(x: own(Any, ROWS); axis) -> many => {
        let (values, indices) = sort_with_indices(x, axis, false, I64);
        vec![Value::Float(values), Value::Int(indices)]
    };
    [int] sort_with_indices(x: own(Any, ROWS); axis) -> many => {
        let (values, indices) = sort_with_indices(x, axis, false);
        vec![Value::Int(values), Value::Int(indices)]
    };
    [float int] topk(x: own(Any, ROWS); axis) => topk(x, axis, 2);
    [float] argtopk(x: own(Any, ROWS); axis) -> int => argtopk(x, axis, 2, I64);
    [int] argtopk(x: own(Any, ROWS); axis) => argtopk(x, axis, 2);
}
