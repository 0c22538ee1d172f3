//! Engines and disks that fail on purpose, for tests of the state after a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::around::Around;
pub use super::around::Call;
use super::{DISK_ALIGN_BYTES, DiskTier, Engine, EngineError};

/// Wraps an engine; one call fails and has no effect.
#[derive(Debug)]
pub struct Fault {
    engine: Arc<dyn Engine>,
    /// The kind of calls that are counted; `None` counts all that can fail.
    counted: Option<Call>,
    /// The number, from zero, of the call that fails.
    failing: u64,
    calls: AtomicU64,
}

impl Fault {
    /// Wraps `engine`. Call number `failing`, from zero, fails.
    pub fn new(engine: Arc<dyn Engine>, failing: u64) -> Self {
        Fault { engine, counted: None, failing, calls: AtomicU64::new(0) }
    }

    /// Wraps `engine`. Of the calls of one kind, number `failing`, from zero, fails.
    pub fn of(engine: Arc<dyn Engine>, kind: Call, failing: u64) -> Self {
        Fault { counted: Some(kind), ..Fault::new(engine, failing) }
    }

    /// The number of counted calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether the failing call was reached.
    pub fn has_failed(&self) -> bool {
        self.calls() > self.failing
    }
}

impl Around for Fault {
    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Fails if it is this call's turn.
    fn before(&self, call: Call, error: &dyn Fn(String) -> EngineError) -> Result<(), EngineError> {
        let counted = self.counted.is_none_or(|counted| counted == call);
        match counted && self.calls.fetch_add(1, Ordering::Relaxed) == self.failing {
            true => Err(error("injected failure".into())),
            false => Ok(()),
        }
    }
}

/// What goes wrong in a disk. Requests and allocations are counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// A request moves its first page and no more, which is no error.
    ShortRequest(u64),
    /// A request fails.
    FailedRequest(u64),
    /// All requests from this one on fail.
    FailedRequests(u64),
    /// The disk is full from this allocation on.
    Full(u64),
}

/// A fault of a disk, and how far the disk is from it.
#[derive(Debug)]
pub struct DiskFaults {
    fault: DiskFault,
    requests: AtomicU64,
    allocations: AtomicU64,
}

impl DiskFaults {
    /// A fault of a disk that did nothing yet.
    pub fn new(fault: DiskFault) -> Self {
        DiskFaults { fault, requests: AtomicU64::new(0), allocations: AtomicU64::new(0) }
    }

    /// Whether the disk has come to the fault.
    pub fn has_happened(&self) -> bool {
        match self.fault {
            DiskFault::ShortRequest(at) | DiskFault::FailedRequest(at) | DiskFault::FailedRequests(at) => {
                self.requests.load(Ordering::Relaxed) > at
            }
            DiskFault::Full(at) => self.allocations.load(Ordering::Relaxed) > at,
        }
    }

    /// The bytes that the next request moves, of those that are asked for; `None` if it fails.
    pub(super) fn next_request(&self, bytes: usize) -> Option<usize> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            DiskFault::ShortRequest(at) if number == at => Some(bytes.min(DISK_ALIGN_BYTES)),
            DiskFault::FailedRequest(at) if number == at => None,
            DiskFault::FailedRequests(at) if number >= at => None,
            _ => Some(bytes),
        }
    }

    /// Whether the disk has room for the next allocation.
    pub(super) fn next_allocation(&self) -> bool {
        let number = self.allocations.fetch_add(1, Ordering::Relaxed);
        !matches!(self.fault, DiskFault::Full(at) if number >= at)
    }
}

/// Only a fault itself is equal to it.
impl PartialEq for DiskFaults {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// Wraps an engine; its disk tier has a fault.
#[derive(Debug)]
pub struct FaultyDisk {
    engine: Arc<dyn Engine>,
    faults: Arc<DiskFaults>,
}

impl FaultyDisk {
    /// Wraps `engine`, whose disk tier is not open yet.
    pub fn new(engine: Arc<dyn Engine>, faults: Arc<DiskFaults>) -> Self {
        FaultyDisk { engine, faults }
    }
}

impl Around for FaultyDisk {
    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    fn around_open_disk(&self, disk: &DiskTier) -> Result<(), String> {
        self.engine.open_disk(&DiskTier { faults: Some(self.faults.clone()), ..disk.clone() })
    }
}
