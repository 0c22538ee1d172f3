//! The device that a program gets that names none, and how many there are.

use std::sync::OnceLock;

use super::id::OvercommitDevice;
#[cfg(feature = "cuda")]
use crate::config;
use crate::config::Variable;
#[cfg(feature = "cuda")]
use crate::engine::cuda;
use crate::error::Error;
#[cfg(feature = "cuda")]
use crate::messages;

impl OvercommitDevice {
    /// Why [`Misnamed`](OvercommitDevice::Misnamed) is the default, if it is.
    pub(crate) fn misnaming() -> Option<Error> {
        decided().as_ref().err().cloned()
    }

    /// How many devices of this kind there are.
    #[doc(hidden)]
    pub fn count(kind: u16) -> usize {
        match kind {
            0 => cuda_devices(),
            // Any number can be made; the first is the one that programs mean.
            1 => 1,
            _ => 0,
        }
    }
}

/// The device named by the environment.
fn from_environment() -> Option<Result<OvercommitDevice, Error>> {
    let value = Variable::Device.text()?;
    Some(OvercommitDevice::named(&value).map_err(|expected| Variable::Device.refuse(value, expected)))
}

/// The default device, or why what the environment names is none.
fn decided() -> &'static Result<OvercommitDevice, Error> {
    static DEFAULT: OnceLock<Result<OvercommitDevice, Error>> = OnceLock::new();
    DEFAULT.get_or_init(|| from_environment().unwrap_or_else(|| Ok(found())))
}

impl Default for OvercommitDevice {
    fn default() -> Self {
        decided().as_ref().map_or(OvercommitDevice::Misnamed, |device| *device)
    }
}

/// The first GPU if it can be used, else the host; in a build without the host engine the GPU all the same, whose error says why.
#[cfg(feature = "cuda")]
fn found() -> OvercommitDevice {
    let options = config::Config::new().cuda_options(0).map_err(|error| error.to_string());
    match options.and_then(|options| cuda::check_device(&options)) {
        Ok(()) => {
            let device = OvercommitDevice::Cuda(0);
            messages::announce(log::Level::Info, format_args!("{device} is the default device"));
            device
        }
        Err(_) if cfg!(not(feature = "host")) => OvercommitDevice::Cuda(0),
        Err(reason) => {
            let device = OvercommitDevice::Host(0);
            messages::announce(
                log::Level::Warn,
                format_args!(
                    "{device} is the default device, and {}={device} chooses it without this message; no GPU: {reason}",
                    Variable::Device.name()
                ),
            );
            device
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn found() -> OvercommitDevice {
    OvercommitDevice::Host(0)
}

#[cfg(feature = "cuda")]
fn cuda_devices() -> usize {
    let options = config::Config::new().cuda_options(0);
    options.map_or(0, |options| cuda::device_count(options.libraries.as_deref()).unwrap_or(0))
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices() -> usize {
    0
}
