//! An engine that fails on purpose: for tests of what a failure leaves behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Algorithm, Engine, EngineError, Lane, Launch, Mark, Props, Ran, Span, Tier, Times};
use crate::op::{Op, Outputs, View};

/// Calls of an engine that can fail, by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `map`, `reserve` and `map_pages`.
    Allocation,
    /// `launch`.
    Launch,
    /// `copy`.
    Copy,
    /// `wait` and `sync`.
    Wait,
}

impl Call {
    /// Every kind.
    pub const ALL: [Call; 4] = [Call::Allocation, Call::Launch, Call::Copy, Call::Wait];
}

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

const REASON: &str = "injected failure";

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

    /// Fails with `error` if it is this call's turn.
    fn turn(&self, kind: Call, error: impl FnOnce() -> EngineError) -> Result<(), EngineError> {
        let counted = self.counted.is_none_or(|counted| counted == kind);
        match counted && self.calls.fetch_add(1, Ordering::Relaxed) == self.failing {
            true => Err(error()),
            false => Ok(()),
        }
    }
}

fn kernel(op: &'static str) -> EngineError {
    EngineError::Kernel { op, reason: REASON.into() }
}

impl Engine for Fault {
    fn props(&self) -> &Props {
        self.engine.props()
    }

    fn bound(&self, tier: Tier, bytes: usize) {
        self.engine.bound(tier, bytes);
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        self.turn(Call::Allocation, || EngineError::Map { tier, bytes, reason: REASON.into() })?;
        self.engine.map(tier, bytes)
    }

    fn unmap(&self, span: Span) {
        self.engine.unmap(span);
    }

    fn reserve(&self, bytes: usize) -> Result<Span, EngineError> {
        self.turn(Call::Allocation, || EngineError::Map {
            tier: Tier::Device,
            bytes,
            reason: REASON.into(),
        })?;
        self.engine.reserve(bytes)
    }

    unsafe fn map_pages(&self, at: Span, physical: &[u32], after: &[Mark]) -> Result<(), EngineError> {
        self.turn(Call::Allocation, || EngineError::Map {
            tier: at.tier,
            bytes: at.bytes,
            reason: REASON.into(),
        })?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.map_pages(at, physical, after) }
    }

    fn release_pages(&self, physical: &[u32]) {
        self.engine.release_pages(physical);
    }

    fn algorithm(&self, op: &Op, inputs: &[View]) -> Algorithm {
        self.engine.algorithm(op, inputs)
    }

    fn alternatives(&self, op: &Op, inputs: &[View]) -> Vec<Algorithm> {
        self.engine.alternatives(op, inputs)
    }

    fn launch_ns(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> u64 {
        self.engine.launch_ns(op, algorithm, inputs, outputs)
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        self.engine.scratch(op, algorithm, inputs, outputs)
    }

    fn prepare(&self, op: &Op, inputs: &mut dyn Iterator<Item = &View>) {
        self.engine.prepare(op, inputs);
    }

    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        self.turn(Call::Launch, || kernel(launch.instruction.op.name()))?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.launch(lane, launch) }
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        self.turn(Call::Copy, || EngineError::Copy { bytes: from.bytes, reason: REASON.into() })?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.copy(lane, from, to) }
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.engine.mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        self.turn(Call::Wait, || kernel("wait"))?;
        self.engine.wait(lane, mark)
    }

    fn reached(&self, mark: Mark) -> bool {
        self.engine.reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.turn(Call::Wait, || kernel("sync"))?;
        self.engine.sync(mark)
    }

    fn bytes(&self, span: Span) -> Option<*mut u8> {
        self.engine.bytes(span)
    }

    fn times(&self) -> Option<Times> {
        self.engine.times()
    }

    fn measured_link(&self) -> Option<f64> {
        self.engine.measured_link()
    }

    fn record(&self) {
        self.engine.record();
    }

    fn recorded(&self) -> Vec<Ran> {
        self.engine.recorded()
    }
}
