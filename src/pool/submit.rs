//! Submission: the one place where spans are handed to an engine, after the waits that make that safe.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::instructions::Instructions;
use crate::config::{Exactness, PlantedFault};
use crate::engine::{Engine, EngineError, Instruction, Lane, Launch, Mark, Span};
use crate::error::Error;
use crate::op::Op;
use crate::pool::Input;
use crate::trace::Ran;

/// For each lane, the last work that touches a range of memory. Zero: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingWork([u64; Lane::ALL.len()]);

impl PendingWork {
    /// Also the work up to `mark`.
    pub fn with(mut self, mark: Mark) -> Self {
        let slot = &mut self.0[mark.lane as usize];
        *slot = mark.sequence.max(*slot);
        self
    }

    /// The work of both.
    pub fn and(mut self, other: PendingWork) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = theirs.max(*mine);
        }
        self
    }

    /// What is in both.
    pub fn common(mut self, other: PendingWork) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = theirs.min(*mine);
        }
        self
    }

    /// One mark per lane that has work.
    pub fn marks(self) -> impl Iterator<Item = Mark> {
        let marks = Lane::ALL.into_iter().map(move |lane| Mark { lane, sequence: self.0[lane as usize] });
        marks.filter(|mark| mark.sequence > 0)
    }
}

/// Submits work to an engine, ordered by marks.
#[derive(Debug)]
pub struct Submitter {
    pub engine: Arc<dyn Engine>,
    /// `waited[a].0[b]`: how far lane `a` already waits for lane `b`; a second wait for less is left out.
    waited: [PendingWork; Lane::ALL.len()],
    /// What is submitted, worked out once.
    instructions: Instructions,
    /// Until when the offload lane is at work, by the predicted time of all ops until then.
    pub offloading_until_ns: u64,
    pub planted_fault: Option<PlantedFault>,
}

impl Submitter {
    /// A submitter to `engine`, to whose lanes nothing else submits.
    pub fn new(engine: Arc<dyn Engine>, planted_fault: Option<PlantedFault>) -> Self {
        Submitter {
            engine,
            waited: Default::default(),
            instructions: Instructions::default(),
            offloading_until_ns: 0,
            planted_fault,
        }
    }

    /// The instruction of `op` on these inputs: see [`Instructions::get`].
    pub fn instruction(
        &mut self,
        exactness: Exactness,
        op: &Op,
        inputs: &[Input],
    ) -> Result<Arc<Instruction>, Error> {
        self.instructions.get(&*self.engine, exactness, op, inputs)
    }

    /// The last piece of work of a lane.
    pub fn last(&self, lane: Lane) -> Ran {
        Ran { sequence: self.engine.mark(lane).sequence, ..Ran::default() }
    }

    /// Work submitted to `lane` from now on runs after `pending`.
    fn order(&mut self, lane: Lane, pending: PendingWork) -> Result<(), EngineError> {
        for mark in pending.marks().filter(|mark| mark.lane != lane) {
            let waited = &mut self.waited[lane as usize];
            if waited.0[mark.lane as usize] < mark.sequence {
                if self.planted_fault != Some(PlantedFault::MissingWait) {
                    self.engine.wait(lane, mark)?;
                }
                *waited = waited.with(mark);
            }
        }
        Ok(())
    }

    /// Runs `launch` on the compute lane after `pending`, and returns the mark of its end.
    ///
    /// The caller, the pool, upholds what [`Engine::launch`] asks: each span lies in a block that is allocated now, and
    /// is freed only with a [`PendingWork`] that contains the returned mark, so whoever is given the memory next waits.
    pub fn launch(&mut self, launch: &Launch, pending: PendingWork) -> Result<Mark, EngineError> {
        self.order(Lane::Compute, pending)?;
        // SAFETY: spans come from blocks in use, sized by `Op::outputs` and `Engine::scratch`; other lanes that touch
        // them are in `pending`, which the lane now waits for, and later ones will wait for the mark returned.
        unsafe { self.engine.launch(Lane::Compute, launch)? };
        Ok(self.engine.mark(Lane::Compute))
    }

    /// Copies on `lane` after `pending`, and returns the mark of its end. The same contract as for `launch`.
    pub fn copy(&mut self, lane: Lane, from: Span, to: Span, pending: PendingWork) -> Result<Mark, EngineError> {
        self.order(lane, pending)?;
        // SAFETY: both spans come from two blocks in use, of one storage's size; see `launch`.
        unsafe { self.engine.copy(lane, from, to)? };
        Ok(self.engine.mark(lane))
    }
}

/// Puts pages behind addresses, after `after`: all work that was submitted on these addresses.
pub fn map_pages(engine: &dyn Engine, at: Span, physical: &[u32], after: PendingWork) -> Result<(), EngineError> {
    let after: ArrayVec<Mark, { Lane::ALL.len() }> = after.marks().collect();
    // SAFETY: `Pages` gives a span of a range that it reserved, as long as the pages, where no block is in use. Blocks that
    // were there are freed with marks of their work, which `Pages` collects for the addresses: `after`.
    unsafe { engine.map_pages(at, physical, &after) }
}

/// The program's access to a storage's bytes in the host tier, which stay there while this exists.
#[derive(Debug)]
pub struct HostAccess {
    engine: Arc<dyn Engine>,
    span: Span,
    pending: PendingWork,
}

impl HostAccess {
    /// Access to `span`, pinned by the caller, once `pending` is done.
    pub(super) fn new(engine: Arc<dyn Engine>, span: Span, pending: PendingWork) -> Self {
        HostAccess { engine, span, pending }
    }

    /// Waits for the work that makes the bytes, or that still touches their memory.
    pub fn wait(&self) -> Result<(), EngineError> {
        self.pending.marks().try_for_each(|mark| self.engine.sync(mark))
    }

    /// The bytes, if the engine has any. Waits for the work that makes them.
    pub fn read(&self) -> Result<Option<Vec<u8>>, EngineError> {
        self.wait()?;
        let Some(start) = self.engine.bytes(self.span) else { return Ok(None) };
        // SAFETY: the span lies in a mapped host slab, pinned by the storage's `host_pins`; all writes to it are done.
        Ok(Some(unsafe { std::slice::from_raw_parts(start, self.span.bytes) }.to_vec()))
    }

    /// Sets the bytes. Waits for earlier work on the same memory.
    ///
    /// # Panics
    /// If there are more or fewer than the storage holds.
    pub fn write(&self, bytes: &[u8]) -> Result<(), EngineError> {
        assert_eq!(bytes.len(), self.span.bytes, "bytes written to a storage must be as many as it holds");
        self.wait()?;
        if let Some(start) = self.engine.bytes(self.span) {
            // SAFETY: as in `read`; the storage is new, so nobody else reads or writes its block.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
        }
        Ok(())
    }
}
