//! By direct calls: this crate's backend is where Burn has LibTorch's.

use burn_overcommit::runtime::ensure_configured;
use burn_overcommit::{Config, Error, OvercommitDevice};
use burn_tch::LibTorchDevice;
use burn_tensor::Device;

pub fn open(device: OvercommitDevice, config: Config) -> Result<Device, Error> {
    ensure_configured(&device, config)?;
    Ok(Device::new(LibTorchDevice(device)))
}
