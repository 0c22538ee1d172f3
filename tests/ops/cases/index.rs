//! Parts by index.

use burn_backend::IntDType;
use burn_backend::tensor::IndexingUpdateOp::{Add, Assign, Max, Min, Mul};

use crate::case::{EACH, Fill::*};
use crate::value::Value;

cases! {
    [float int bool] gather(x: own(Any, [3, 4], [1024, 1024]), i: int(Below(4), [3, 6], [1024, 1024])) => gather(1, x, i);
    [float int bool] gather: first(x: own(Any, [3, 4, 2]), i: int(Below(3), [5, 4, 2])) => gather(0, x, i);
    [float int] scatter_add(x: own(Any, [3, 4], [1024, 1024]), i: int(Below(4), [3, 6], [1024, 1024]), y: own(Any, [3, 6], [1024, 1024])) =>
        scatter_add(1, x, i, y);
    [float int] scatter_add: first(x: own(Any, [3, 4, 2]), i: int(Below(3), [5, 4, 2]), y: own(Any, [5, 4, 2])) =>
        scatter_add(0, x, i, y);
    [bool] scatter_or(x: own(Any, [3, 4]), i: int(Below(4), [3, 6]), y: own(Any, [3, 6])) => scatter_or(1, x, i, y);

    [float int bool] select(x: own(Any, [4, 5], [1024, 1024]), i: int(Below(4), [7], [1024])) => select(x, 0, i);
    [float int bool] select: last(x: own(Any, [3, 4], [1024, 1024]), i: int(Below(4), [6], [1024])) => select(x, 1, i);
    [float int] select_add(x: own(Any, [4, 5], [1024, 1024]), i: int(Below(4), [7], [1024]), y: own(Any, [7, 5], [1024, 1024])) =>
        select_add(x, 0, i, y);
    [float int] select_add: last(x: own(Any, [3, 4], [1024, 1024]), i: int(Below(4), [6], [1024]), y: own(Any, [3, 6], [1024, 1024])) =>
        select_add(x, 1, i, y);
    [bool] select_or(x: own(Any, [4, 5]), i: int(Below(4), [7]), y: own(Any, [7, 5])) => select_or(x, 0, i, y);

    [float int] gather_nd(x: own(Any, [4, 5, 3], [256, 256, 16]), i: int(Below(4), [6, 2], [65536, 2])) => gather_nd(x, i);
    [float int] gather_nd: elements(x: own(Any, [4, 5]), i: int(Below(4), [2, 3, 2])) => gather_nd(x, i);
    [float int] scatter_nd: add(x: own(Any, [4, 5, 3], [256, 256, 16]), i: int(Below(4), [6, 2], [65536, 2]), y: own(Any, [6, 3], [65536, 16])) =>
        scatter_nd(x, i, y, Add);

    [bool] argwhere(x: own(Any, EACH)) -> many => {
        let found = burn_backend::read_sync(argwhere(x, IntDType::I64));
        vec![Value::Int(found)]
    };
    {float} embedding(x: own(Any, [5, 4], [1000, 256]), i: int(Below(5), [2, 3], [32, 128]));
    {float} embedding_backward(x: own(Any, [5, 4], [1000, 256]), grad: own(Any, [2, 3, 4], [32, 128, 256]), i: int(Below(5), [2, 3], [32, 128]));

    [float int] scatter_nd: assign(x: own(Any, [7, 3], [1024, 256]), i: int(Below(7), [1, 1]), y: own(Any, [1, 3], [1, 256])) =>
        scatter_nd(x, i, y, Assign);
    [float int] scatter_nd: mul(x: own(Any, [4, 5, 3]), i: int(Below(4), [6, 2]), y: own(Any, [6, 3])) =>
        scatter_nd(x, i, y, Mul);
    [float int] scatter_nd: min(x: own(Any, [4, 5, 3]), i: int(Below(4), [6, 2]), y: own(Any, [6, 3])) =>
        scatter_nd(x, i, y, Min);
    [float int] scatter_nd: max(x: own(Any, [4, 5, 3]), i: int(Below(4), [6, 2]), y: own(Any, [6, 3])) =>
        scatter_nd(x, i, y, Max);
}
