//! The calls of the front door. Free functions, since the device or the tensors name the runtime.

use std::sync::Arc;

use super::device::Tensor;
use super::{registry, scope, workers};
use crate::OvercommitDevice;
use crate::error::Error;
use crate::fusion::FusionTensor;
use crate::op::{Dtype, Inputs, Op, PerOutput, Shape, Traced, View, bytes_view};
use crate::pool::HostAccess;

/// Runs an op on the device of its inputs.
fn submit(op: &Op, inputs: impl IntoIterator<Item = Tensor>) -> Result<PerOutput<Tensor>, Error> {
    let tensors: Inputs<Tensor> = inputs.into_iter().collect();
    let runtime = tensors[0].runtime().clone();
    if let Some(other) = tensors.iter().find(|tensor| !Arc::ptr_eq(tensor.runtime(), &runtime)) {
        tensors.iter().try_for_each(|tensor| tensor.runtime().lock_only().map(drop))?;
        return Err(Error::MixedDevices { op: op.name(), devices: [runtime.device, other.device()] });
    }
    runtime.submit(op, tensors)
}

/// Runs an op with one output on the device of its inputs. Inputs passed by their last handle may be overwritten.
///
/// ```
/// use burn_overcommit::op::{Dtype, Op, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// let x = runtime::write(&device, &[1u8, 2, 3], Dtype::U8, Shape::new(&[3]))?;
/// let copy = runtime::run(Op::Copy { dtype: Dtype::F32 }, [x])?;
/// assert_eq!(copy.view().dtype, Dtype::F32);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// Inputs that do not [fit](Op::check) the op, or live on several devices; memory that is not enough; a device that failed.
///
/// # Panics
/// If there is no input, or the op has another number of outputs.
pub fn run(op: Op, inputs: impl IntoIterator<Item = Tensor>) -> Result<Tensor, Error> {
    Ok(submit(&op, inputs)?.swap_remove(0))
}

/// Runs an op with two outputs.
/// See [`run`] for an example.
pub fn run_pair(op: Op, inputs: impl IntoIterator<Item = Tensor>) -> Result<[Tensor; 2], Error> {
    let outputs = submit(&op, inputs)?;
    Ok(outputs.into_inner().expect("an op with two outputs"))
}

/// Runs an op with three outputs.
/// See [`run`] for an example.
pub fn run_three(op: Op, inputs: impl IntoIterator<Item = Tensor>) -> Result<[Tensor; 3], Error> {
    let mut outputs = submit(&op, inputs)?.into_iter();
    Ok(std::array::from_fn(|_| outputs.next().expect("an op with three outputs")))
}

/// Runs an op without inputs on `device`.
///
/// ```
/// use burn_overcommit::op::{Dtype, Op, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// let ones = Op::Fill { shape: Shape::new(&[4]), dtype: Dtype::F32, value: 1.0.into() };
/// let x = runtime::create(&device, ones)?;
/// assert_eq!(runtime::read(x)?.len(), 16);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn create(device: &OvercommitDevice, op: Op) -> Result<Tensor, Error> {
    Ok(registry::runtime(device)?.submit(&op, Inputs::new())?.swap_remove(0))
}

/// Runs an op of a recorded program.
pub(crate) fn run_traced(
    device: &OvercommitDevice,
    op: Traced,
    inputs: Vec<Tensor>,
) -> Result<PerOutput<Tensor>, Error> {
    registry::runtime(device)?.submit(&Op::Traced(op), inputs.into())
}

/// A tensor like one that [`write`] makes, on an engine without data.
pub(crate) fn claim(device: &OvercommitDevice, size_bytes: usize) -> Result<Tensor, Error> {
    let runtime = registry::runtime(device)?;
    runtime.write(size_bytes, bytes_view(size_bytes), HostAccess::wait)
}

/// Waits for a tensor's data as [`read`] does, on an engine without data.
pub(crate) fn wait_for(tensor: &Tensor) -> Result<(), Error> {
    tensor.runtime().read(tensor, HostAccess::wait)
}

/// Writes a note into the recording, such as that an epoch begins.
///
/// ```
/// use burn_overcommit::{Config, OvercommitDevice, configure, note, recording};
///
/// let device = OvercommitDevice::Host(0);
/// configure(&device, Config::new().record())?;
/// note(&device, "epoch 1")?;
/// assert!(recording(&device)?.program().from_note("epoch 1").is_some());
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// A device that this build cannot run.
pub fn note(device: &OvercommitDevice, text: &str) -> Result<(), Error> {
    registry::runtime(device)?.settled([])?.pool.note(text);
    Ok(())
}

/// A tensor with these elements, row-major, as native-endian bytes.
///
/// ```
/// use burn_overcommit::op::{Dtype, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// let x = runtime::write(&device, &[1, 2, 3], Dtype::U8, Shape::new(&[3]))?;
/// assert_eq!(runtime::read(x)?, [1, 2, 3]);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn write(device: &OvercommitDevice, bytes: &[u8], dtype: Dtype, shape: Shape) -> Result<Tensor, Error> {
    let view = View::contiguous(dtype, shape);
    if bytes.len() != view.size_bytes() {
        let (needed_bytes, had_bytes) = (view.size_bytes(), bytes.len());
        return Err(Error::DataSize { dtype, shape, needed_bytes, had_bytes });
    }
    workers::note(*device);
    registry::runtime(device)?.write(bytes.len(), view, |access| access.write(bytes))
}

/// The tensor's elements, row-major, as native-endian bytes. Waits for the work that makes them. An engine without data
/// returns what [`Config::reads`](crate::Config::reads) says.
/// See [`write`](fn@write) for an example.
pub fn read(tensor: Tensor) -> Result<Vec<u8>, Error> {
    let (runtime, view) = (tensor.runtime().clone(), *tensor.view());
    let Some(bytes) = download(tensor)? else {
        if let Some(warning) = runtime.supply.warning(runtime.device) {
            runtime.lock()?.pool.settings.log(log::Level::Warn, format_args!("{warning}"));
        }
        return runtime.supply.elements(runtime.device, &view);
    };
    Ok(bytes)
}

/// A number that the program's control flow depends on: the only element of an `i64` tensor. An engine without data
/// takes it to be the part of `max` that [`Config::density`](crate::Config::density) says.
///
/// ```
/// use burn_overcommit::op::{Dtype, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// let three = runtime::write(&device, &3i64.to_ne_bytes(), Dtype::I64, Shape::new(&[1]))?;
/// assert_eq!(runtime::read_count("count", three, 10)?, 3);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn read_count(op: &'static str, tensor: Tensor, max: usize) -> Result<usize, Error> {
    let runtime = tensor.runtime().clone();
    match download(tensor)? {
        Some(bytes) => Ok(bytemuck::pod_read_unaligned::<i64>(&bytes) as usize),
        None => runtime.supply.count(runtime.device, op, max),
    }
}

/// The tensor's elements, unless the engine has no data.
fn download(tensor: Tensor) -> Result<Option<Vec<u8>>, Error> {
    let view = *tensor.view();
    let tensor =
        if view.layout.is_contiguous() { tensor } else { run(Op::Copy { dtype: view.dtype }, [tensor])? };
    workers::note(tensor.runtime().device);
    let Some(mut bytes) = tensor.runtime().read(&tensor, HostAccess::read)? else { return Ok(None) };
    // A view without elements may have an offset beyond the end.
    let begin = tensor.layout().offset() * view.dtype.size_bytes();
    bytes.drain(..begin.min(bytes.len()));
    bytes.truncate(view.size_bytes());
    Ok(Some(bytes))
}

/// Declares a tensor to be a result of the checkpointed scope that this thread has just left: it counts as made outside.
///
/// ```
/// use burn_overcommit::op::{Dtype, Op, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// let ones = Op::Fill { shape: Shape::new(&[4]), dtype: Dtype::F32, value: 1.0.into() };
/// let scope = runtime::Scope::enter();
/// let x = runtime::create(&device, ones)?;
/// drop(scope);
/// runtime::keep_result(&x)?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// The op that makes the tensor waited until now, and failed.
pub fn keep_result(tensor: &Tensor) -> Result<(), Error> {
    tensor.runtime().settled([tensor])?.pool.keep_result(tensor.id(), scope::depth());
    Ok(())
}

/// Waits for all work submitted to `device`, and returns the first failure that no read and no `sync` has reported.
///
/// ```
/// use burn_overcommit::op::{Dtype, Op, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// let ones = Op::Fill { shape: Shape::new(&[4]), dtype: Dtype::F32, value: 1.0.into() };
/// runtime::create(&device, ones)?;
/// runtime::sync(&device)?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn sync(device: &OvercommitDevice) -> Result<(), Error> {
    registry::runtime(device)?.sync()
}

/// Waits for all work, and gives memory that no tensor uses back to the system.
///
/// ```
/// use burn_overcommit::op::{Dtype, Op, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// let ones = Op::Fill { shape: Shape::new(&[4]), dtype: Dtype::F32, value: 1.0.into() };
/// drop(runtime::create(&device, ones)?);
/// runtime::cleanup(&device)?;
/// assert_eq!(burn_overcommit::stats(&device)?.allocated_bytes, 0);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn cleanup(device: &OvercommitDevice) -> Result<(), Error> {
    let runtime = registry::runtime(device)?;
    runtime.sync()?;
    runtime.lock()?.pool.give_back();
    Ok(())
}

/// Restarts the sequence of random numbers that ops on `device` draw.
///
/// ```
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// runtime::seed(&device, 7)?;
/// let first = runtime::next_seed(&device)?;
/// runtime::seed(&device, 7)?;
/// assert_eq!(runtime::next_seed(&device)?, first);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn seed(device: &OvercommitDevice, seed: u64) -> Result<(), Error> {
    registry::runtime(device)?.random.start(seed);
    Ok(())
}

/// A key for one random op. It depends on the device's seed, and on how many keys were drawn since that was set.
/// See [`seed`] for an example.
pub fn next_seed(device: &OvercommitDevice) -> Result<u64, Error> {
    Ok(registry::runtime(device)?.random.next())
}
