//! Plain functions on tensors. They translate to ops and compute nothing, and they know no version of Burn: a face converts Burn's
//! types to those of [`arguments`] and [`op`](crate::op), and calls them.
//!
//! Tensors are passed by value: an op that consumes the last handle of an input may run in place.

pub mod arguments;
pub mod attention;
pub mod create;
pub mod ctc;
pub mod fourier;
pub mod gradient;
pub mod index;
pub mod inside;
pub mod linear;
pub mod module;
pub mod norm;
pub mod pointwise;
pub mod quantized;
pub mod reduce;
pub mod sort;
pub mod view;
pub mod vision;
pub mod volume;

use std::fmt::Display;

use crate::error::Error;
use crate::op::{Dtype, Op};
use crate::runtime::{self, Tensor};

/// The one place that panics: Burn's ops return values, so an error has nowhere else to go.
#[cold]
#[track_caller]
pub fn fail(error: impl Display) -> ! {
    panic!("{error}")
}

/// The runtime's result; panics with its error.
#[track_caller]
pub fn ok<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => fail(error),
    }
}

/// The output of an op.
#[track_caller]
pub(crate) fn run(op: Op, inputs: impl IntoIterator<Item = Tensor>) -> Tensor {
    ok(runtime::run(op, inputs))
}

/// The tensor as `dtype`. If that has the same representation, only the name of the type changes.
#[track_caller]
pub fn cast(x: Tensor, dtype: Dtype) -> Tensor {
    if x.dtype().stored() == dtype.stored() {
        return x.with_dtype(dtype);
    }
    run(Op::Copy { dtype }, [x])
}
