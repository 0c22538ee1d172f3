//! Casts between dtypes.

use burn_backend::{FloatDType as F, IntDType as I};

use crate::case::{EACH, Fill::*};

cases! {
    [float] cast: f64(x: own(Wide, EACH)) => cast(x, F::F64);
    [float] cast: f32(x: own(Wide, EACH)) => cast(x, F::F32);
    [float] cast: f16(x: own(Wide, EACH)) => cast(x, F::F16);
    [float] cast: bf16(x: own(Wide, EACH)) => cast(x, F::BF16);
    [float] into_int: i64(x: own(Wide, EACH)) -> int => into_int(x, I::I64);
    [float] into_int: i32(x: own(Wide, EACH)) -> int => into_int(x, I::I32);
    [float] into_int: i16(x: own(Wide, EACH)) -> int => into_int(x, I::I16);
    [float] into_int: i8(x: own(Wide, EACH)) -> int => into_int(x, I::I8);
    [float] into_int: u64(x: own(Positive, EACH)) -> int => into_int(x, I::U64);
    [float] into_int: u32(x: own(Positive, EACH)) -> int => into_int(x, I::U32);
    [float] into_int: u16(x: own(Positive, EACH)) -> int => into_int(x, I::U16);
    [float] into_int: u8(x: own(Positive, EACH)) -> int => into_int(x, I::U8);

    [int] cast: i64(x: own(Any, EACH)) => cast(x, I::I64);
    [int] cast: i32(x: own(Any, EACH)) => cast(x, I::I32);
    [int] cast: i16(x: own(Any, EACH)) => cast(x, I::I16);
    [int] cast: i8(x: own(Any, EACH)) => cast(x, I::I8);
    [int] cast: u64(x: own(Positive, EACH)) => cast(x, I::U64);
    [int] cast: u32(x: own(Positive, EACH)) => cast(x, I::U32);
    [int] cast: u16(x: own(Positive, EACH)) => cast(x, I::U16);
    [int] cast: u8(x: own(Positive, EACH)) => cast(x, I::U8);
    [int] into_float: f64(x: own(Any, EACH)) -> float => into_float(x, F::F64);
    [int] into_float: f32(x: own(Any, EACH)) -> float => into_float(x, F::F32);
    [int] into_float: f16(x: own(Any, EACH)) -> float => into_float(x, F::F16);
    [int] into_float: bf16(x: own(Any, EACH)) -> float => into_float(x, F::BF16);

    [bool] into_int: i64(x: own(Any, EACH)) -> int => into_int(x, I::I64);
    [bool] into_int: i32(x: own(Any, EACH)) -> int => into_int(x, I::I32);
    [bool] into_int: u8(x: own(Any, EACH)) -> int => into_int(x, I::U8);
    [bool] into_float: f64(x: own(Any, EACH)) -> float => into_float(x, F::F64);
    [bool] into_float: f32(x: own(Any, EACH)) -> float => into_float(x, F::F32);
    [bool] into_float: f16(x: own(Any, EACH)) -> float => into_float(x, F::F16);
    [bool] into_float: bf16(x: own(Any, EACH)) -> float => into_float(x, F::BF16);
}
