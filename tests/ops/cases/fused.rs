//! Ops that are one launch where elementwise ones are fused, with what they end in.

use crate::case::{Fill::*, ROWS};

cases! {
    [float] add: fused(x: own(Unit, [37, 41]), y: own(Unit, [37, 41])) => add(B::float_mul(x.clone(), y), x);
    [float] sum_dim: fused(x: own(Unit, ROWS), y: own(Unit, ROWS); axis) => sum_dim(B::float_mul(x, y), axis);
    [float] mean_dim: fused(x: own(Unit, ROWS), y: own(Unit, ROWS); axis) => mean_dim(B::float_mul(x, y), axis);
}
