//! Engines, systems and disks that fail on purpose, for tests of the state after a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::around::Around;
pub use super::around::Call;
pub use super::disk::faults::{DiskFault, DiskFaults};
use super::{DiskTier, Engine, EngineError, MapError, Tier};

/// How a call fails.
#[derive(Debug, Clone, Copy)]
enum Way {
    Error,
    Panic,
    /// The process ends, without a chance to tidy up.
    Abort,
}

/// Wraps an engine; one call fails and has no effect.
#[derive(Debug)]
pub struct Fault {
    engine: Arc<dyn Engine>,
    /// The kind of calls that are counted; `None` counts all that can fail.
    counted: Option<Call>,
    /// The number, from zero, of the call that fails.
    failing: u64,
    way: Way,
    calls: AtomicU64,
}

impl Fault {
    /// Wraps `engine`. Call number `failing`, from zero, fails.
    pub fn new(engine: Arc<dyn Engine>, failing: u64) -> Self {
        Fault { engine, counted: None, failing, way: Way::Error, calls: AtomicU64::new(0) }
    }

    /// Wraps `engine`. Of the calls of one kind, number `failing`, from zero, fails.
    pub fn of(engine: Arc<dyn Engine>, kind: Call, failing: u64) -> Self {
        Fault { counted: Some(kind), ..Fault::new(engine, failing) }
    }

    /// The same, but the call panics.
    pub fn panicking(self) -> Self {
        Fault { way: Way::Panic, ..self }
    }

    /// The same, but the call ends the process, as a kill would.
    pub fn aborting(self) -> Self {
        Fault { way: Way::Abort, ..self }
    }

    /// From now on nothing fails that has not yet.
    pub fn stop(&self) {
        self.calls.store(u64::MAX / 2, Ordering::Relaxed);
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
        if !counted || self.calls.fetch_add(1, Ordering::Relaxed) != self.failing {
            return Ok(());
        }
        match self.way {
            Way::Error => Err(error("injected failure".into())),
            Way::Panic => panic!("injected panic"),
            Way::Abort => std::process::abort(),
        }
    }
}

/// Wraps an engine whose system has too little memory of a tier.
#[derive(Debug)]
pub struct Scarce {
    engine: Arc<dyn Engine>,
    tier: Tier,
    left_bytes: AtomicUsize,
}

impl Scarce {
    /// Wraps `engine`, which maps so many bytes of a tier altogether.
    pub fn new(engine: Arc<dyn Engine>, tier: Tier, bytes: usize) -> Self {
        Scarce { engine, tier, left_bytes: AtomicUsize::new(bytes) }
    }
}

impl Around for Scarce {
    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    fn before(&self, _: Call, error: &dyn Fn(String) -> EngineError) -> Result<(), EngineError> {
        match error(String::new()) {
            EngineError::Map { tier, bytes, .. } if tier == self.tier => {
                let take = |left: usize| left.checked_sub(bytes);
                let taken = self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
                let reason = MapError::Exhausted("injected failure".into());
                taken.map(drop).map_err(|_| EngineError::Map { tier, bytes, reason })
            }
            _ => Ok(()),
        }
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
