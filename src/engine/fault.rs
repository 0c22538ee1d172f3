//! An engine that fails on purpose: for tests of what a failure leaves behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::around::Around;
pub use super::around::Call;
use super::{Engine, EngineError};

/// An engine of which one call fails, and does nothing.
#[derive(Debug)]
pub struct Fault {
    engine: Arc<dyn Engine>,
    /// Which calls are counted; all that can fail if none is named.
    counted: Option<Call>,
    /// The number, from zero, of the call that fails.
    failing: u64,
    calls: AtomicU64,
}

impl Fault {
    /// `engine`, with call number `failing`, from zero, failing.
    pub fn new(engine: Arc<dyn Engine>, failing: u64) -> Self {
        Fault { engine, counted: None, failing, calls: AtomicU64::new(0) }
    }

    /// `engine`, with number `failing`, from zero, of the calls of one kind failing.
    pub fn of(engine: Arc<dyn Engine>, kind: Call, failing: u64) -> Self {
        Fault { counted: Some(kind), ..Fault::new(engine, failing) }
    }

    /// Calls so far, of those that are counted.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether the call was made.
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
