//! Data parallel training, as Burn's faces ask for it: the devices that train together, and what becomes of their gradients.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::collective::{Reduction, all_reduce, reset_collectives, sync_collective};
use super::device::Tensor;
use crate::OvercommitDevice;
use crate::error::Error;

/// There is one training at a time.
static TRAINING: Mutex<Option<(Vec<OvercommitDevice>, Reduction)>> = Mutex::new(None);

/// The key of tensors that a program reduces itself.
const OF_PROGRAM: u64 = 0;

fn training() -> MutexGuard<'static, Option<(Vec<OvercommitDevice>, Reduction)>> {
    TRAINING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a training on several devices, whose gradients become this.
///
/// ```
/// use burn_overcommit::op::{Dtype, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let devices = [OvercommitDevice::Host(87), OvercommitDevice::Host(88)];
/// runtime::begin_training(&devices, runtime::Reduction::Sum);
/// let mut gradients = Vec::new();
/// for device in &devices {
///     let mut gradient = runtime::write(device, &1f32.to_ne_bytes(), Dtype::F32, Shape::new(&[1]))?;
///     runtime::reduce_gradient(&mut gradient, &"weight")?;
///     gradients.push(gradient);
/// }
/// for (device, gradient) in devices.iter().zip(gradients) {
///     runtime::sync_collective(device)?;
///     assert_eq!(runtime::read(gradient)?, 2f32.to_ne_bytes());
/// }
/// runtime::end_training();
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn begin_training(devices: &[OvercommitDevice], reduction: Reduction) {
    reset_collectives(devices);
    *training() = Some((devices.to_vec(), reduction));
}

/// Ends the training. See [`begin_training`] for an example.
pub fn end_training() {
    *training() = None;
}

/// Puts what becomes of a gradient in its place, which must not be used before [`sync_collective`]. Without a training it stays as it is.
/// See [`begin_training`] for an example.
///
/// # Errors
/// A tensor that is not of floats.
pub fn reduce_gradient(gradient: &mut Tensor, parameter: &impl Hash) -> Result<(), Error> {
    let Some((devices, reduction)) = training().clone() else { return Ok(()) };
    let mut hasher = DefaultHasher::new();
    parameter.hash(&mut hasher);
    *gradient = all_reduce(gradient.clone(), reduction, hasher.finish(), &devices)?;
    Ok(())
}

/// Like [`all_reduce`], for a tensor that a program brings itself.
///
/// ```
/// use burn_overcommit::op::{Dtype, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let device = OvercommitDevice::Host(84);
/// let alone = runtime::write(&device, &1f32.to_ne_bytes(), Dtype::F32, Shape::new(&[1]))?;
/// let alone = runtime::reduce_of_program(alone, runtime::Reduction::Mean, &[device])?;
/// runtime::sync_collective(&device)?;
/// assert_eq!(runtime::read(alone)?, 1f32.to_ne_bytes());
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// A tensor that is not of floats.
pub fn reduce_of_program(
    tensor: Tensor,
    reduction: Reduction,
    devices: &[OvercommitDevice],
) -> Result<Tensor, Error> {
    all_reduce(tensor, reduction, OF_PROGRAM, devices)
}

/// Reduces tensors of several devices, one of each, which are all here, and waits for the results.
///
/// ```
/// use burn_overcommit::op::{Dtype, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let of = |index, value: f32| {
///     runtime::write(&OvercommitDevice::Host(index), &value.to_ne_bytes(), Dtype::F32, Shape::new(&[1]))
/// };
/// let sums = runtime::reduce_together(vec![of(85, 1.0)?, of(86, 2.0)?], runtime::Reduction::Sum)?;
/// for sum in sums {
///     assert_eq!(runtime::read(sum)?, 3f32.to_ne_bytes());
/// }
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// A tensor that is not of floats, and work that failed.
pub fn reduce_together(tensors: Vec<Tensor>, reduction: Reduction) -> Result<Vec<Tensor>, Error> {
    let devices: Vec<OvercommitDevice> = tensors.iter().map(|tensor| tensor.device()).collect();
    let reduce = |tensor| all_reduce(tensor, reduction, OF_PROGRAM, &devices);
    let reduced: Vec<Tensor> = tensors.into_iter().map(reduce).collect::<Result<_, Error>>()?;
    devices.iter().try_for_each(sync_collective)?;
    Ok(reduced)
}
