//! Burn's backend traits. Their implementations in `face` only forward to plain functions on [`Tensor`], which
//! translate to ops and compute nothing.
//!
//! The functions do not depend on Burn's traits, and `face` does not know the details of ops, so another version of
//! Burn needs only another `face`. Tensors are passed by value: an op that consumes the last handle of an input may
//! run in place.
//!
//! ```
//! use burn::backend::Autodiff;
//! use burn::tensor::Tensor;
//! use burn_overcommit::{Overcommit, OvercommitDevice};
//!
//! type B = Autodiff<Overcommit>;
//!
//! let x = Tensor::<B, 1>::from_floats([1.0, 2.0], &OvercommitDevice::Host(0)).require_grad();
//! let gradients = x.clone().square().sum().backward();
//! assert_eq!(x.grad(&gradients).unwrap().into_data().to_vec::<f32>().unwrap(), [2.0, 4.0]);
//! ```

pub(crate) mod attention;
pub(crate) mod convert;
pub(crate) mod create;
mod ctc;
mod element;
mod face;
mod fourier;
#[cfg(feature = "autodiff")]
pub(crate) mod gradient;
mod index;
pub(crate) mod linear;
pub(crate) mod module;
pub(crate) mod norm;
pub(crate) mod pointwise;
mod quantized;
pub(crate) mod reduce;
mod sort;
pub(crate) mod view;
pub(crate) mod vision;

pub use element::{FloatElement, IntElement};
pub use quantized::Quantized;

use crate::error::Error;
use crate::op::{Dtype, Op};
use crate::runtime::{self, Tensor};
use std::fmt::Display;
use std::marker::PhantomData;

/// The backend, for Burn's backend type parameter: floats of `F`, integers of `I` unless a tensor says otherwise.
///
/// ```
/// type Training = burn::backend::Autodiff<burn_overcommit::Overcommit>;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Overcommit<F = f32, I = i32>(PhantomData<(F, I)>);

/// The one place that panics: Burn's ops return values, so an error has nowhere else to go.
#[cold]
#[track_caller]
pub(crate) fn fail(error: impl Display) -> ! {
    panic!("{error}")
}

/// The runtime's result; panics with its error.
#[track_caller]
pub(crate) fn ok<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => fail(error),
    }
}

#[track_caller]
pub(crate) fn run(op: Op, inputs: impl IntoIterator<Item = Tensor>) -> Tensor {
    ok(runtime::run(op, inputs))
}

/// The tensor as `dtype`. If that has the same representation, only the name of the type changes.
#[track_caller]
fn cast(x: Tensor, dtype: Dtype) -> Tensor {
    if x.dtype().stored() == dtype.stored() {
        return x.with_dtype(dtype);
    }
    run(Op::Copy { dtype }, [x])
}
