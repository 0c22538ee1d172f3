//! The face for Burn 0.21: its backend traits. Their methods only convert and forward to plain functions on [`Tensor`], which
//! translate to ops and compute nothing. Methods that are not here keep Burn's default, which is built from those that are.
//!
//! Tensors are passed by value: an op that consumes the last handle of an input may run in place.
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

mod convert;
mod distributed;
mod element;
mod quantized;
#[cfg(feature = "server")]
mod server;
mod traits;

use std::marker::PhantomData;

#[cfg(feature = "autodiff")]
pub(crate) use convert::IntoCore;
pub use element::{FloatElement, IntElement};
pub use quantized::Quantized;

use crate::OvercommitDevice as Device;
use crate::runtime::Tensor;

/// The backend, for Burn's backend type parameter: floats of `F`, integers of `I` unless a tensor says otherwise.
///
/// ```
/// type Training = burn::backend::Autodiff<burn_overcommit::Overcommit>;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Overcommit<F = f32, I = i32>(PhantomData<(F, I)>);
