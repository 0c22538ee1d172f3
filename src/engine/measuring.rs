//! An engine that reports given times as measured, for tests of plans that are made again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Algorithm, Engine, EngineError, Lane, Launch, Mark, Props, Span, Tier};
use crate::op::{Op, Outputs, View};

/// A simulation that hides its clock. Ops of one kind take other times than predicted.
#[derive(Debug)]
pub struct Measuring {
    engine: Arc<dyn Engine>,
    op: &'static str,
    /// Measured time of the op, in hundredths of the predicted time.
    percent: AtomicU64,
    /// Measured bandwidth of copies, in hundredths of the predicted bandwidth.
    link_percent: AtomicU64,
}

impl Measuring {
    /// An engine that can change the times of the op with this name; at first, all ops take as long as predicted.
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
        Some(self.props().link_bytes_per_second() * self.link_percent.load(Ordering::Relaxed) as f64 / 100.0)
    }
}
