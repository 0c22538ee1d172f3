//! Makes tensors from constants, from random numbers and from Burn's data, and reads them back.

use super::{convert, fail, ok};
use crate::OvercommitDevice;
use crate::op::{Distribution, Dtype, Op, Scalar, Shape};
use crate::runtime::{self, Tensor};
use burn_backend::{BoolStore, DType, ExecutionError, TensorData};
use std::fmt::Display;
use std::ops::Range;

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
    fill(shape, convert::scalar(0.into(), dtype), device, dtype)
}

/// [`fill`] for Burn's shape, scalar and dtype.
#[track_caller]
pub fn full(
    sizes: &[usize],
    value: impl Into<burn_backend::Scalar>,
    device: &OvercommitDevice,
    dtype: impl Into<DType>,
) -> Tensor {
    let dtype = convert::dtype(dtype);
    fill(convert::shape(sizes), convert::scalar(value.into(), dtype), device, dtype)
}

/// The integers of a range, `step` apart.
#[track_caller]
pub fn arange(range: Range<i64>, step: usize, device: &OvercommitDevice, dtype: impl Into<DType>) -> Tensor {
    if step == 0 {
        fail(format!("burn-overcommit: int_arange of {range:?}: the step must be at least 1, and was 0"));
    }
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    let op = Op::Arange {
        count: length.div_ceil(step),
        dtype: convert::dtype(dtype),
        start: range.start,
        step: step as i64,
    };
    create(device, op)
}

/// Random numbers; `standard` is the range of Burn's default distribution, which depends on the element type.
#[track_caller]
pub fn random(
    sizes: &[usize],
    distribution: burn_backend::Distribution,
    standard: Range<f64>,
    device: &OvercommitDevice,
    dtype: impl Into<DType>,
) -> Tensor {
    use burn_backend::Distribution as Burn;
    let uniform = |low: f64, high: f64| Distribution::Uniform { low: low.into(), high: high.into() };
    let distribution = match distribution {
        Burn::Default => uniform(standard.start, standard.end),
        Burn::Uniform(low, high) => uniform(low, high),
        Burn::Bernoulli(probability) => Distribution::Bernoulli { probability: probability.into() },
        Burn::Normal(mean, deviation) => {
            Distribution::Normal { mean: mean.into(), deviation: deviation.into() }
        }
    };
    let op = Op::Random {
        shape: convert::shape(sizes),
        dtype: convert::dtype(dtype),
        distribution,
        seed: ok(runtime::next_seed(device)),
    };
    create(device, op)
}

/// A mask that is one with this probability and else zero. It depends on the seed alone.
#[track_caller]
pub fn kept(shape: Shape, device: &OvercommitDevice, dtype: Dtype, probability: f64, seed: u64) -> Tensor {
    let distribution = Distribution::Bernoulli { probability: probability.into() };
    create(device, Op::Random { shape, dtype, distribution, seed })
}

/// Uploads floats.
#[track_caller]
pub fn float_from_data(data: TensorData, device: &OvercommitDevice) -> Tensor {
    if !data.dtype.is_float() {
        fail(format!("burn-overcommit: a float tensor was asked for from {:?} data", data.dtype));
    }
    upload(data, device)
}

/// Uploads integers.
#[track_caller]
pub fn int_from_data(data: TensorData, device: &OvercommitDevice) -> Tensor {
    if !data.dtype.is_int() && !data.dtype.is_uint() {
        fail(format!("burn-overcommit: an int tensor was asked for from {:?} data", data.dtype));
    }
    upload(data, device)
}

/// Uploads bools, however stored.
#[track_caller]
pub fn bool_from_data(data: TensorData, device: &OvercommitDevice) -> Tensor {
    let store = match data.dtype {
        DType::Bool(store) => store,
        // Where bools are U8 or U32 tensors, Burn passes them under those names.
        DType::U8 => BoolStore::U8,
        DType::U32 => BoolStore::U32,
        other => fail(format!("burn-overcommit: a bool tensor was asked for from {other:?} data")),
    };
    upload(TensorData { dtype: DType::Bool(store), ..data }, device)
}

#[track_caller]
fn upload(data: TensorData, device: &OvercommitDevice) -> Tensor {
    let shape = convert::shape(&data.shape);
    let (needed, had) = (shape.count() * data.dtype.size(), data.bytes.len());
    if needed != had {
        fail(format!(
            "burn-overcommit: data of the wrong size: {shape:?} of {:?} needs {needed} bytes, had {had}",
            data.dtype
        ));
    }
    ok(runtime::write(device, data.as_bytes(), convert::dtype(data.dtype), shape))
}

/// Downloads a tensor, row-major.
#[track_caller]
pub fn into_data(tensor: Tensor) -> Result<TensorData, ExecutionError> {
    let (sizes, dtype) = (tensor.shape().dims().to_vec(), tensor.dtype().into());
    let bytes = runtime::read(tensor).map_err(execution_error)?;
    Ok(TensorData::from_bytes_vec(bytes, sizes, dtype))
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

pub fn execution_error(error: impl Display) -> ExecutionError {
    ExecutionError::WithContext { reason: error.to_string() }
}
