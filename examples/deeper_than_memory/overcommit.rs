//! All that this example knows of the crate it is an example of.

use std::error::Error;

use burn::backend::Autodiff;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, configure, stats};

use crate::memory::{Memory, Usage};

/// The backend of the four runs.
pub type Training = Autodiff<Overcommit>;

/// The default device, under a policy where there is a budget.
pub struct Pool {
    device: OvercommitDevice,
    policy: Policy,
}

impl Pool {
    pub fn new(policy: Policy) -> Self {
        let device = OvercommitDevice::default();
        Pool { device, policy }
    }

    pub fn device(&self) -> &OvercommitDevice {
        &self.device
    }
}

impl Memory for Pool {
    fn limit(&self, budget_bytes: Option<u64>) -> Result<(), Box<dyn Error>> {
        let config = match budget_bytes {
            Some(bytes) => Config::new().policy(self.policy).budget_bytes(usize::try_from(bytes)?),
            None => Config::new(),
        };
        Ok(configure(&self.device, config)?)
    }

    fn go_op_by_op(&self) -> Result<(), Box<dyn Error>> {
        Ok(configure(&self.device, Config::new().fusion(false))?)
    }

    fn usage(&self) -> Usage {
        let stats = stats(&self.device).expect("the device was configured");
        Usage {
            allocated_bytes: stats.allocated_bytes as u64,
            peak_bytes: stats.peak_allocated_bytes as u64,
            offloaded_bytes: stats.counters.offloaded_bytes,
            fetched_bytes: stats.counters.fetched_bytes,
            recomputed_bytes: stats.counters.recomputed_bytes,
            evictions: stats.counters.evictions,
        }
    }
}
