//! Engines that wrap other engines, for tests.

use std::fmt::Debug;

use super::{
    Algorithm, DiskTier, Engine, EngineError, Failure, Fallback, Lane, Launch, Mark, PeerTier, Props, Ran,
    Span, Tier, Times,
};
use crate::op::{Op, Outputs, View};

/// Kinds of engine calls that can fail.
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

/// Memory that the system has given an engine, or got back.
#[derive(Debug, Clone, Copy)]
pub enum Mapped<'a> {
    /// A slab.
    Slab(Span),
    /// A slab that is given back.
    SlabBack(Span),
    /// Physical pages, by number.
    Pages(&'a [u32]),
    /// Physical pages that are given back.
    PagesBack(&'a [u32]),
}

/// What a wrapping engine does beyond forwarding.
pub trait Around: Send + Sync + Debug {
    /// The wrapped engine.
    fn engine(&self) -> &dyn Engine;

    /// Runs before each call that can fail. If it returns an error, the call is not made; `error` makes one from a
    /// reason.
    fn before(&self, call: Call, error: &dyn Fn(String) -> EngineError) -> Result<(), EngineError> {
        let _ = (call, error);
        Ok(())
    }

    /// Notes memory that was mapped or given back.
    fn note(&self, memory: Mapped<'_>) {
        let _ = memory;
    }

    /// Opens the disk tier.
    fn around_open_disk(&self, disk: &DiskTier) -> Result<(), String> {
        self.engine().open_disk(disk)
    }

    /// Replaces a launch.
    ///
    /// # Safety
    /// As for [`Engine::launch`].
    unsafe fn around_launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine().launch(lane, launch) }
    }
}

impl<T: Around> Engine for T {
    fn props(&self) -> &Props {
        self.engine().props()
    }

    fn bound(&self, tier: Tier, bytes: usize) {
        self.engine().bound(tier, bytes);
    }

    fn open_disk(&self, disk: &DiskTier) -> Result<(), String> {
        self.around_open_disk(disk)
    }

    fn open_peers(&self, peers: &PeerTier) -> Result<(), String> {
        self.engine().open_peers(peers)
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        self.before(Call::Allocation, &|reason| EngineError::Map { tier, bytes, reason: reason.into() })?;
        let span = self.engine().map(tier, bytes)?;
        self.note(Mapped::Slab(span));
        Ok(span)
    }

    fn spend(&self, ns: u64) {
        self.engine().spend(ns);
    }

    fn unmap(&self, span: Span) {
        self.engine().unmap(span);
        self.note(Mapped::SlabBack(span));
    }

    fn reserve(&self, bytes: usize) -> Result<Span, EngineError> {
        self.before(Call::Allocation, &|reason| EngineError::Map {
            tier: Tier::Device,
            bytes,
            reason: reason.into(),
        })?;
        self.engine().reserve(bytes)
    }

    unsafe fn map_pages(&self, at: Span, physical: &[u32], after: &[Mark]) -> Result<(), EngineError> {
        self.before(Call::Allocation, &|reason| EngineError::Map {
            tier: at.tier,
            bytes: at.bytes,
            reason: reason.into(),
        })?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine().map_pages(at, physical, after) }?;
        self.note(Mapped::Pages(physical));
        Ok(())
    }

    fn release_pages(&self, physical: &[u32]) {
        self.engine().release_pages(physical);
        self.note(Mapped::PagesBack(physical));
    }

    fn algorithm(&self, op: &Op, inputs: &[View]) -> Algorithm {
        self.engine().algorithm(op, inputs)
    }

    fn alternatives(&self, op: &Op, inputs: &[View]) -> Vec<Algorithm> {
        self.engine().alternatives(op, inputs)
    }

    fn launch_ns(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> u64 {
        self.engine().launch_ns(op, algorithm, inputs, outputs)
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        self.engine().scratch(op, algorithm, inputs, outputs)
    }

    fn prepares(&self) -> bool {
        self.engine().prepares()
    }

    fn prepare(&self, op: &Op, inputs: &mut dyn Iterator<Item = &View>) {
        self.engine().prepare(op, inputs);
    }

    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        let op = launch.instruction.op.name();
        self.before(Call::Launch, &|reason| EngineError::Kernel { op, reason })?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.around_launch(lane, launch) }
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        self.before(Call::Copy, &|reason| EngineError::Copy { bytes: from.bytes, reason })?;
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine().copy(lane, from, to) }
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.engine().mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        self.before(Call::Wait, &|reason| EngineError::Kernel { op: "wait", reason })?;
        self.engine().wait(lane, mark)
    }

    fn reached(&self, mark: Mark) -> bool {
        self.engine().reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.before(Call::Wait, &|reason| EngineError::Kernel { op: "sync", reason })?;
        self.engine().sync(mark)
    }

    fn failures(&self) -> Vec<Failure> {
        self.engine().failures()
    }

    fn bytes(&self, span: Span) -> Option<*mut u8> {
        self.engine().bytes(span)
    }

    fn times(&self) -> Option<Times> {
        self.engine().times()
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        self.engine().fallbacks()
    }

    fn measured_link(&self) -> Option<f64> {
        self.engine().measured_link()
    }

    fn measured_peers(&self) -> Option<f64> {
        self.engine().measured_peers()
    }

    fn measured_disk(&self) -> Option<f64> {
        self.engine().measured_disk()
    }

    fn failed_writes(&self) -> u64 {
        self.engine().failed_writes()
    }

    fn record(&self) {
        self.engine().record();
    }

    fn recorded(&self) -> Vec<Ran> {
        self.engine().recorded()
    }
}
