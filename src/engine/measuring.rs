//! An engine without a clock that measures what it is told to: for tests of what is planned anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Algorithm, Engine, EngineError, Lane, Launch, Mark, Props, Span, Tier};
use crate::op::{Op, Outputs, View};

/// A simulation whose clock is not shown. Ops of one kind take other times than predicted.
#[derive(Debug)]
pub struct Measuring {
    engine: Arc<dyn Engine>,
    op: &'static str,
    /// In hundredths of what is predicted.
    percent: AtomicU64,
    /// The same, of the bandwidth of copies.
    link_percent: AtomicU64,
}

impl Measuring {
    /// `op` by name, which takes as long as predicted, like all others.
    pub fn new(engine: Arc<dyn Engine>, op: &'static str) -> Self {
        Measuring { engine, op, percent: AtomicU64::new(100), link_percent: AtomicU64::new(100) }
    }

    /// From now on, the op takes so many hundredths of the predicted time, and copies move so many of the predicted bytes.
    pub fn set(&self, percent: u64, link_percent: u64) {
        self.percent.store(percent, Ordering::Relaxed);
        self.link_percent.store(link_percent, Ordering::Relaxed);
    }
}

impl Engine for Measuring {
    fn props(&self) -> &Props {
        self.engine.props()
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        self.engine.map(tier, bytes)
    }

    fn unmap(&self, span: Span) {
        self.engine.unmap(span);
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        self.engine.scratch(op, algorithm, inputs, outputs)
    }

    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        let instruction = &launch.instruction;
        let is_it = instruction.op.name() == self.op;
        let percent = if is_it { self.percent.load(Ordering::Relaxed) } else { 100 };
        instruction.measured.note(instruction.launch_ns * percent / 100);
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.launch(lane, launch) }
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.copy(lane, from, to) }
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.engine.mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        self.engine.wait(lane, mark)
    }

    fn reached(&self, mark: Mark) -> bool {
        self.engine.reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.engine.sync(mark)
    }

    fn bytes(&self, span: Span) -> Option<*mut u8> {
        self.engine.bytes(span)
    }

    fn measured_link(&self) -> Option<f64> {
        Some(self.props().link_bytes_per_second * self.link_percent.load(Ordering::Relaxed) as f64 / 100.0)
    }
}
