//! Reductions and running ones.

use burn_backend::IntDType::I64;

use crate::case::{EACH, Fill::*, ROWS};
use crate::value::Value;

cases! {
    [float int] sum(x: own(Any, EACH));
    [float int] prod(x: own(Positive, [2, 3], [1024, 1024]));
    [float int] mean(x: own(Any, [2, 3], [1024, 1024]));
    [float int] max(x: own(Any, [3, 4, 5], [1024, 1024]));
    [float int] min(x: own(Any, [3, 4, 5], [1024, 1024]));
    [float int] max_abs(x: own(Any, [3, 4, 5], [1024, 1024]));
    [float int] max: scalar(x: own(Any, []));
    [float int] min: scalar(x: own(Any, []));
    [float int] sum_dim(x: own(Any, ROWS); axis) => sum_dim(x, axis);
    [float int] prod_dim(x: own(Any, ROWS); axis) => prod_dim(x, axis);
    [float int] mean_dim(x: own(Any, ROWS); axis) => mean_dim(x, axis);
    [float int] max_dim(x: own(Any, ROWS); axis) => max_dim(x, axis);
    [float int] min_dim(x: own(Any, ROWS); axis) => min_dim(x, axis);
    [float int] max_abs_dim(x: own(Any, ROWS); axis) => max_abs_dim(x, axis);
    [float] argmax(x: own(Any, ROWS); axis) -> int => argmax(x, axis, I64);
    [float] argmin(x: own(Any, ROWS); axis) -> int => argmin(x, axis, I64);
    [float] argmax: ties(x: own(Coarse, ROWS); axis) -> int => argmax(x, axis, I64);
    [float] argmin: ties(x: own(Coarse, ROWS); axis) -> int => argmin(x, axis, I64);
    [int] argmax(x: own(Any, ROWS); axis) => argmax(x, axis);
    [int] argmin(x: own(Any, ROWS); axis) => argmin(x, axis);
    [float] max_dim_with_indices(x: own(Any, ROWS); axis) -> many => {
        let (values, indices) = max_dim_with_indices(x, axis, I64);
        vec![Value::Float(values), Value::Int(indices)]
    };
    [float] min_dim_with_indices(x: own(Any, ROWS); axis) -> many => {
        let (values, indices) = min_dim_with_indices(x, axis, I64);
        vec![Value::Float(values), Value::Int(indices)]
    };
    [int] max_dim_with_indices(x: own(Any, ROWS); axis) -> many => {
        let (values, indices) = max_dim_with_indices(x, axis);
        vec![Value::Int(values), Value::Int(indices)]
    };
    [int] min_dim_with_indices(x: own(Any, ROWS); axis) -> many => {
        let (values, indices) = min_dim_with_indices(x, axis);
        vec![Value::Int(values), Value::Int(indices)]
    };

    [float int] cumsum(x: own(Any, ROWS); axis) => cumsum(x, axis);
    [float int] cumprod(x: own(Any, ROWS); axis) => cumprod(x, axis);
    [float int] cummin(x: own(Any, ROWS); axis) => cummin(x, axis);
    [float int] cummax(x: own(Any, ROWS); axis) => cummax(x, axis);
}
