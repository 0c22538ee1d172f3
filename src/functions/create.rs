//! Makes tensors from constants, from random numbers and from bytes, and takes them to other devices.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::arguments::{Number, Random};
use super::{fail, ok};
use crate::OvercommitDevice;
use crate::error::Error;
use crate::op::{Distribution, Dtype, Op, Scalar, Shape};
use crate::runtime::{self, Tensor};

#[track_caller]
fn create(device: &OvercommitDevice, op: Op) -> Tensor {
    ok(runtime::create(device, op))
}

/// A tensor whose elements are all the same.
#[track_caller]
pub fn fill(shape: Shape, value: Scalar, device: &OvercommitDevice, dtype: Dtype) -> Tensor {
    create(device, Op::Fill { shape, dtype, value })
}

/// A tensor without defined elements, to be written before it is read.
#[track_caller]
pub fn unset(shape: Shape, device: &OvercommitDevice, dtype: Dtype) -> Tensor {
    create(device, Op::Unset { shape, dtype })
}

/// A tensor of zeros.
#[track_caller]
pub fn zeros(shape: Shape, device: &OvercommitDevice, dtype: Dtype) -> Tensor {
    fill(shape, Number::Int(0).of(dtype), device, dtype)
}

/// [`fill`] with a number as a program wrote it.
#[track_caller]
pub fn full(shape: Shape, value: impl Into<Number>, device: &OvercommitDevice, dtype: Dtype) -> Tensor {
    fill(shape, value.into().of(dtype), device, dtype)
}

/// The integers of a range, `step` apart.
#[track_caller]
pub fn arange(range: Range<i64>, step: usize, device: &OvercommitDevice, dtype: Dtype) -> Tensor {
    if step == 0 {
        fail(format!("burn-overcommit: int_arange of {range:?}: the step must be at least 1, and was 0"));
    }
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    create(device, Op::Arange { count: length.div_ceil(step), dtype, start: range.start, step: step as i64 })
}

/// Random numbers; the usual ones are uniform in a range that depends on the kind of elements.
#[track_caller]
pub fn random(
    shape: Shape,
    random: Random,
    usual: Range<f64>,
    device: &OvercommitDevice,
    dtype: Dtype,
) -> Tensor {
    let uniform = |low: f64, high: f64| Distribution::Uniform { low: low.into(), high: high.into() };
    let distribution = match random {
        Random::Usual => uniform(usual.start, usual.end),
        Random::Uniform(low, high) => uniform(low, high),
        Random::Bernoulli(probability) => Distribution::Bernoulli { probability: probability.into() },
        Random::Normal(mean, deviation) => {
            Distribution::Normal { mean: mean.into(), deviation: deviation.into() }
        }
    };
    create(device, Op::Random { shape, dtype, distribution, seed: ok(runtime::next_seed(device)) })
}

/// A mask that is one with this probability and else zero. It depends on the seed alone.
#[track_caller]
pub fn kept(shape: Shape, device: &OvercommitDevice, dtype: Dtype, probability: f64, seed: u64) -> Tensor {
    let distribution = Distribution::Bernoulli { probability: probability.into() };
    create(device, Op::Random { shape, dtype, distribution, seed })
}

/// Elements that a program has, row-major.
pub struct Data<B> {
    /// As many as dtype and shape say.
    pub bytes: B,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The sizes.
    pub shape: Shape,
}

/// An upload that memory was too small for, and its error.
#[derive(Debug)]
pub struct Refused {
    /// Why it was refused.
    pub error: Error,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The sizes.
    pub shape: Shape,
    /// Where it should have gone.
    pub device: OvercommitDevice,
}

/// Uploads floats.
#[track_caller]
pub fn float_from_data(
    data: Data<impl Deref<Target = [u8]>>,
    device: &OvercommitDevice,
) -> Result<Tensor, Arc<Refused>> {
    if !data.dtype.is_float() {
        fail(format!("burn-overcommit: a float tensor was asked for from {:?} data", data.dtype));
    }
    upload(data, device)
}

/// Uploads integers.
#[track_caller]
pub fn int_from_data(
    data: Data<impl Deref<Target = [u8]>>,
    device: &OvercommitDevice,
) -> Result<Tensor, Arc<Refused>> {
    if !data.dtype.is_integer() {
        fail(format!("burn-overcommit: an int tensor was asked for from {:?} data", data.dtype));
    }
    upload(data, device)
}

/// Uploads bools, however stored.
#[track_caller]
pub fn bool_from_data(
    data: Data<impl Deref<Target = [u8]>>,
    device: &OvercommitDevice,
) -> Result<Tensor, Arc<Refused>> {
    let dtype = match data.dtype {
        Dtype::Bool | Dtype::Bool8 | Dtype::Bool32 => data.dtype,
        // Where bools are U8 or U32 tensors, Burn passes them under those names.
        Dtype::U8 => Dtype::Bool8,
        Dtype::U32 => Dtype::Bool32,
        other => fail(format!("burn-overcommit: a bool tensor was asked for from {other:?} data")),
    };
    upload(Data { dtype, ..data }, device)
}

fn upload(data: Data<impl Deref<Target = [u8]>>, device: &OvercommitDevice) -> Result<Tensor, Arc<Refused>> {
    let Data { bytes, dtype, shape } = data;
    let refused = |error| Arc::new(Refused { error, dtype, shape, device: *device });
    runtime::write(device, &bytes, dtype, shape).map_err(refused)
}

/// The tensor on `device`, through the host unless it is there already.
#[track_caller]
pub fn to_device(tensor: Tensor, device: &OvercommitDevice) -> Tensor {
    if tensor.device() == *device {
        return tensor;
    }
    let (dtype, shape) = (tensor.dtype(), *tensor.shape());
    let bytes = ok(runtime::read(tensor));
    ok(runtime::write(device, &bytes, dtype, shape))
}
