//! What the example asks of a device's memory. Only our backend has an answer.

use std::error::Error;

/// A device's memory as the runs see it: given a budget before a run, watched during it.
pub trait Memory {
    /// Bounds the memory (`None`: as much as the machine has). No tensor of the device may be alive.
    fn limit(&self, budget_bytes: Option<u64>) -> Result<(), Box<dyn Error>>;
    /// Bounds nothing, and has the result of each op stored, as a backend does that computes op by op. No tensor of the device may
    /// be alive.
    fn go_op_by_op(&self) -> Result<(), Box<dyn Error>>;
    /// What has happened since [`Memory::limit`].
    fn usage(&self) -> Usage;
}

/// Counters of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub allocated_bytes: u64,
    pub peak_bytes: u64,
    pub offloaded_bytes: u64,
    pub fetched_bytes: u64,
    pub recomputed_bytes: u64,
    pub evictions: u64,
}

/// A backend that neither bounds nor counts its memory.
pub struct Unmetered;

impl Memory for Unmetered {
    fn limit(&self, _budget_bytes: Option<u64>) -> Result<(), Box<dyn Error>> {
        Ok(())
    }

    fn go_op_by_op(&self) -> Result<(), Box<dyn Error>> {
        Ok(())
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}
