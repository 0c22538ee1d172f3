//! The seam: all that this example knows of the crate it is an example of.

use std::error::Error;

use burn::backend::Autodiff;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, configure, stats};

use crate::memory::{Memory, Usage};
use crate::options::PolicyChoice;

/// The backend of the four runs.
pub type Training = Autodiff<Overcommit>;

/// The first host device, whose memory is a bounded arena.
pub struct Pool {
    device: OvercommitDevice,
    policy: Policy,
}

impl Pool {
    pub fn new(policy: PolicyChoice) -> Result<Self, Box<dyn Error>> {
        let policy = match policy {
            PolicyChoice::Auto => Policy::Auto,
            PolicyChoice::Offload => Policy::Offload,
            PolicyChoice::Recompute => Policy::Recompute,
        };
        let device = OvercommitDevice::Host(0);
        Ok(Pool { device, policy })
    }

    pub fn device(&self) -> &OvercommitDevice {
        &self.device
    }
}

impl Memory for Pool {
    fn limit(&self, budget_bytes: Option<u64>) -> Result<(), Box<dyn Error>> {
        let config = Config::new().policy(self.policy);
        let config = match budget_bytes {
            Some(bytes) => config.budget_bytes(usize::try_from(bytes)?),
            None => config,
        };
        Ok(configure(&self.device, config)?)
    }

    fn usage(&self) -> Usage {
        let stats = stats(&self.device);
        Usage {
            allocated_bytes: stats.allocated_bytes as u64,
            peak_bytes: stats.peak_allocated_bytes as u64,
            offloaded_bytes: stats.offloaded_bytes as u64,
            fetched_bytes: stats.fetched_bytes as u64,
            recomputed_bytes: stats.recomputed_bytes as u64,
            evictions: stats.evictions as u64,
        }
    }
}
