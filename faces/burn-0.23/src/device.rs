//! Burn's devices that run on this crate's.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use burn_group::GroupDevice;
use burn_overcommit::runtime::ensure_configured;
use burn_overcommit::{Config, Error, OvercommitDevice};
use burn_tensor::Device;

use crate::Overcommit;
use crate::convert::Member;

/// The default device, configured: `OVERCOMMIT_DEVICE` names it, else it is the first GPU, else the host. `.autodiff()` makes it
/// differentiate, as any device of Burn's.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit_023::{Config, device};
///
/// let device = device(Config::new().budget_bytes(64 << 20))?.autodiff();
/// let x = Tensor::<1>::from_floats([1.0, 2.0], &device).require_grad();
/// let gradients = x.clone().square().sum().backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_data().try_to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`device_on`].
pub fn device(config: Config) -> Result<Device, Error> {
    device_on(OvercommitDevice::default(), config)
}

/// The named device, configured. However often it is asked for with one configuration, it is the same device.
///
/// ```
/// use burn_overcommit_023::{Config, OvercommitDevice, device_on, stats};
///
/// let second = device_on(OvercommitDevice::Host(1), Config::new().budget_bytes(32 << 20))?;
/// assert_eq!(stats(&OvercommitDevice::Host(1))?.budget_bytes, 32 << 20);
/// # let _ = second;
/// # Ok::<(), burn_overcommit_023::Error>(())
/// ```
///
/// # Errors
/// If there is no such device, if the configuration does not fit it, or if the device was used before with another one.
pub fn device_on(device: OvercommitDevice, config: Config) -> Result<Device, Error> {
    ensure_configured(&device, config)?;
    let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || GroupDevice::new::<Overcommit>(&[Member(device)]).expect("one member is a group");
    Ok(Device::new(*groups.entry(device).or_insert_with(new)))
}

/// The group whose one member is a device. Groups are never freed, and tensors of two groups do not mix.
static GROUPS: LazyLock<Mutex<HashMap<OvercommitDevice, GroupDevice>>> = LazyLock::new(Mutex::default);
