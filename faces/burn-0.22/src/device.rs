//! Burn's devices that run on this crate's.

use burn_overcommit::{Config, Error, OvercommitDevice};
use burn_tensor::Device;

#[cfg(feature = "direct")]
use crate::direct as door;
#[cfg(not(feature = "direct"))]
use crate::server as door;

/// The default device, configured: `OVERCOMMIT_DEVICE` names it, else it is the first GPU, else the host. `.autodiff()` makes it
/// differentiate, as any device of Burn's.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit_022::{Config, device};
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
/// use burn_overcommit_022::{Config, OvercommitDevice, device_on, stats};
///
/// let second = device_on(OvercommitDevice::Host(1), Config::new().budget_bytes(32 << 20))?;
/// assert_eq!(stats(&OvercommitDevice::Host(1))?.budget_bytes, 32 << 20);
/// # let _ = second;
/// # Ok::<(), burn_overcommit_022::Error>(())
/// ```
///
/// # Errors
/// If there is no such device, if the configuration does not fit it, or if the device was used before with another one. With a server,
/// also if the loopback interface is not to be had.
pub fn device_on(device: OvercommitDevice, config: Config) -> Result<Device, Error> {
    door::open(device, config)
}
