//! An engine that fails on purpose: for tests of what a failure leaves behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Algorithm, Call, Engine, EngineError, Lane, Mark, Props, Span, Tier};
use crate::op::{Op, Outputs, View};

/// Which calls fail. Counted are the calls that can: `map`, `launch`, `copy`, `wait` and `sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// The call with this number, from zero.
    Nth(u64),
    /// One in `every`, chosen by `seed`.
    Some {
        /// How rare they are.
        every: u64,
        /// Which they are.
        seed: u64,
    },
}

/// An engine whose calls fail by plan. A call that fails does nothing.
#[derive(Debug)]
pub struct Fault {
    engine: Arc<dyn Engine>,
    failing: Failing,
    calls: AtomicU64,
    injected: AtomicU64,
}

const REASON: &str = "injected failure";

impl Fault {
    /// `engine`, with some calls failing.
    pub fn new(engine: Arc<dyn Engine>, failing: Failing) -> Self {
        Fault {
            engine,
            failing,
            calls: AtomicU64::new(0),
            injected: AtomicU64::new(0),
        }
    }

    /// How many calls failed by plan so far.
    pub fn injected(&self) -> u64 {
        self.injected.load(Ordering::Relaxed)
    }

    /// Fails with `error` if it is this call's turn.
    fn turn(&self, error: impl FnOnce() -> EngineError) -> Result<(), EngineError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = match self.failing {
            Failing::Nth(wanted) => call == wanted,
            Failing::Some { every, seed } => scattered(seed ^ call).is_multiple_of(every),
        };
        if !fails {
            return Ok(());
        }
        self.injected.fetch_add(1, Ordering::Relaxed);
        Err(error())
    }
}

/// Unrelated numbers from neighbouring ones: the upper half of a product with the golden ratio.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

fn kernel(op: &'static str) -> EngineError {
    EngineError::Kernel {
        op,
        reason: REASON.into(),
    }
}

impl Engine for Fault {
    fn props(&self) -> &Props {
        self.engine.props()
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        self.turn(|| EngineError::Map {
            tier,
            bytes,
            reason: REASON.into(),
        })?;
        self.engine.map(tier, bytes)
    }

    fn unmap(&self, span: Span) {
        self.engine.unmap(span);
    }

    fn algorithm(&self, op: &Op, inputs: &[View]) -> Algorithm {
        self.engine.algorithm(op, inputs)
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        self.engine.scratch(op, algorithm, inputs, outputs)
    }

    unsafe fn launch(&self, lane: Lane, call: &Call) -> Result<(), EngineError> {
        self.turn(|| kernel(call.op.name()))?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.launch(lane, call) }
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        self.turn(|| EngineError::Copy {
            bytes: from.bytes,
            reason: REASON.into(),
        })?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.copy(lane, from, to) }
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.engine.mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        self.turn(|| kernel("wait"))?;
        self.engine.wait(lane, mark)
    }

    fn reached(&self, mark: Mark) -> bool {
        self.engine.reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.turn(|| kernel("sync"))?;
        self.engine.sync(mark)
    }

    fn bytes(&self, span: Span) -> *mut u8 {
        self.engine.bytes(span)
    }
}
