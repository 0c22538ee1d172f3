//! Comparisons, masks, and what asks about elements.

use burn_backend::BoolStore::Native;

use crate::case::{EACH, Fill::*, ROWS};

cases! {
    [float int] equal(x: own(Coarse, EACH), y: own(Coarse, EACH)) -> bool => equal(x, y, Native);
    [float int] not_equal(x: own(Coarse, EACH), y: own(Coarse, EACH)) -> bool => not_equal(x, y, Native);
    [float int] greater(x: own(Coarse, EACH), y: own(Coarse, EACH)) -> bool => greater(x, y, Native);
    [float int] greater_equal(x: own(Coarse, EACH), y: own(Coarse, EACH)) -> bool => greater_equal(x, y, Native);
    [float int] lower(x: own(Coarse, EACH), y: own(Coarse, EACH)) -> bool => lower(x, y, Native);
    [float int] lower_equal(x: own(Coarse, EACH), y: own(Coarse, EACH)) -> bool => lower_equal(x, y, Native);
    [float int] equal_elem(x: own(Coarse, EACH)) -> bool => equal_elem(x, 1.into(), Native);
    [float int] not_equal_elem(x: own(Coarse, EACH)) -> bool => not_equal_elem(x, 1.into(), Native);
    [float int] greater_elem(x: own(Coarse, EACH)) -> bool => greater_elem(x, 1.into(), Native);
    [float int] greater_equal_elem(x: own(Coarse, EACH)) -> bool => greater_equal_elem(x, 1.into(), Native);
    [float int] lower_elem(x: own(Coarse, EACH)) -> bool => lower_elem(x, 1.into(), Native);
    [float int] lower_equal_elem(x: own(Coarse, EACH)) -> bool => lower_equal_elem(x, 1.into(), Native);
    [float] is_nan(x: own(Any, EACH)) -> bool => is_nan(x, Native);
    [float] is_inf(x: own(Any, EACH)) -> bool => is_inf(x, Native);

    [float int bool] mask_where(x: own(Any, EACH), mask: bool(Any, EACH), y: own(Any, EACH));
    [float int] mask_fill(x: own(Any, EACH), mask: bool(Any, EACH)) => mask_fill(x, mask, 3.into());
    [bool] mask_fill(x: own(Any, EACH), mask: bool(Any, EACH)) => mask_fill(x, mask, true.into());
    [float int] mask_where: broadcast(x: own(Any, [4, 5]), mask: bool(Any, [4, 1]), y: own(Any, [1, 5]));

    [bool] equal(x: own(Any, EACH), y: own(Any, EACH));
    [bool] not_equal(x: own(Any, EACH), y: own(Any, EACH));
    [bool] equal_elem(x: own(Any, EACH)) => equal_elem(x, true.into());
    [bool] not_equal_elem(x: own(Any, EACH)) => not_equal_elem(x, true.into());
    [bool] not(x: own(Any, EACH));
    [bool] and(x: own(Any, EACH), y: own(Any, EACH));
    [bool] or(x: own(Any, EACH), y: own(Any, EACH));
    [bool] xor(x: own(Any, EACH), y: own(Any, EACH));

    [float int] any(x: own(Coarse, EACH)) -> bool => any(x, Native);
    [float int] all(x: own(Coarse, EACH)) -> bool => all(x, Native);
    [float int] all: true(x: own(Positive, EACH)) -> bool => all(x, Native);
    [float int] any_dim(x: own(Coarse, ROWS); axis) -> bool => any_dim(x, axis, Native);
    [float int] all_dim(x: own(Coarse, ROWS); axis) -> bool => all_dim(x, axis, Native);
    [bool] any(x: own(Any, EACH));
    [bool] all(x: own(Any, EACH));
    [bool] any_dim(x: own(Any, ROWS); axis) => any_dim(x, axis);
    [bool] all_dim(x: own(Any, ROWS); axis) => all_dim(x, axis);
}
