//! Submission: the only place where the pool hands memory to an engine, after the waits that make that safe.
//!
//! With `engine/`, this is the only module with unsafe code.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::instructions::Instructions;
use crate::config::{Exactness, PlantedFault};
use crate::engine::{Engine, EngineError, HostTimes, Instruction, Lane, Launch, Mark, Span};
use crate::op::Op;
use crate::pool::Input;
use crate::trace::Ran;

/// Pending work: for each lane, the number of the last work that touches a range of memory, or zero if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingWork([u64; Lane::ALL.len()]);

impl From<Mark> for PendingWork {
    fn from(mark: Mark) -> Self {
        PendingWork::default().with(mark)
    }
}

impl PendingWork {
    /// Adds the work up to `mark`.
    pub fn with(mut self, mark: Mark) -> Self {
        let slot = &mut self.0[mark.lane as usize];
        *slot = mark.sequence.max(*slot);
        self
    }

    /// The work that is in this or in `other`.
    pub fn and(mut self, other: PendingWork) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = theirs.max(*mine);
        }
        self
    }

    /// The work that is in this and in `other`.
    pub fn common(mut self, other: PendingWork) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = theirs.min(*mine);
        }
        self
    }

    /// A mark for each lane that has work.
    pub fn marks(self) -> impl Iterator<Item = Mark> {
        let marks = Lane::ALL.into_iter().map(move |lane| Mark { lane, sequence: self.0[lane as usize] });
        marks.filter(|mark| mark.sequence > 0)
    }
}

/// Submits work to an engine's lanes, in an order that marks ensure.
#[derive(Debug)]
pub struct Submitter {
    pub engine: Arc<dyn Engine>,
    /// How far lane `a` already waits for lane `b`, in `waited[a].0[b]`. A wait for earlier work is omitted.
    waited: [PendingWork; Lane::ALL.len()],
    /// The instructions that were submitted so far.
    instructions: Instructions,
    /// When the offload lane is idle again, as the sum of the predicted times of all ops before.
    pub offloading_until_ns: u64,
    pub planted_fault: Option<PlantedFault>,
}

impl Submitter {
    /// Creates the submitter of an engine. Nothing else may submit to its lanes.
    pub fn new(engine: Arc<dyn Engine>, planted_fault: Option<PlantedFault>) -> Self {
        Submitter {
            engine,
            waited: Default::default(),
            instructions: Instructions::default(),
            offloading_until_ns: 0,
            planted_fault,
        }
    }

    /// The instruction of `op` on these inputs. See [`Instructions::get`].
    pub fn instruction(&mut self, exactness: Exactness, op: &Op, inputs: &[Input]) -> Arc<Instruction> {
        self.instructions.get(&*self.engine, exactness, op, inputs)
    }

    /// Charges a simulated device for the time that the program's thread takes.
    pub fn spend(&self, ns: impl FnOnce(&HostTimes) -> u64) {
        let ns = ns(&self.engine.props().host);
        if ns > 0 {
            self.engine.spend(ns);
        }
    }

    /// The last piece of work of a lane.
    pub fn last(&self, lane: Lane) -> Ran {
        Ran { sequence: self.engine.mark(lane).sequence, ..Ran::default() }
    }

    /// Makes work that is submitted to `lane` from now on run after `pending`.
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
    /// The caller, which is the pool, upholds what [`Engine::launch`] requires. Each span lies in a block that is allocated now.
    /// The block is freed only with a [`PendingWork`] that contains the returned mark, so whoever gets the memory next waits.
    pub fn launch(&mut self, launch: &Launch, pending: PendingWork) -> Result<Mark, EngineError> {
        self.order(Lane::Compute, pending)?;
        // SAFETY: all spans lie in blocks in use, whose sizes follow from `Op::outputs` and `Engine::scratch`. The work of other
        // lanes that touches them is in `pending`, which the lane waits for, and later work waits for the returned mark.
        unsafe { self.engine.launch(Lane::Compute, launch)? };
        Ok(self.engine.mark(Lane::Compute))
    }

    /// Copies on `lane` after `pending`, and returns the mark of its end. The contract is that of `launch`.
    pub fn copy(
        &mut self,
        lane: Lane,
        from: Span,
        to: Span,
        pending: PendingWork,
    ) -> Result<Mark, EngineError> {
        self.order(lane, pending)?;
        // SAFETY: the spans lie in two blocks in use and have the size of one storage. The rest is as in `launch`.
        unsafe { self.engine.copy(lane, from, to)? };
        Ok(self.engine.mark(lane))
    }
}

/// Maps pages at addresses once `after` is done, which must contain all work that was submitted through these addresses.
pub fn map_pages(
    engine: &dyn Engine,
    at: Span,
    physical: &[u32],
    after: PendingWork,
) -> Result<(), EngineError> {
    let after: ArrayVec<Mark, { Lane::ALL.len() }> = after.marks().collect();
    // SAFETY: the caller, `Pages`, passes a span of a range that it reserved, which is as long as the pages and which no block in
    // use has. Blocks that had it were freed with marks of their work, which `Pages` passes as `after`.
    unsafe { engine.map_pages(at, physical, &after) }
}

/// The program's access to a storage's bytes in the host tier. The bytes stay there while this exists.
#[derive(Debug)]
pub struct HostAccess {
    engine: Arc<dyn Engine>,
    span: Span,
    pending: PendingWork,
}

impl HostAccess {
    /// Gives access to `span`, which the caller has pinned, once `pending` is done.
    pub(super) fn new(engine: Arc<dyn Engine>, span: Span, pending: PendingWork) -> Self {
        HostAccess { engine, span, pending }
    }

    /// Waits for the work that writes the bytes or still touches their memory.
    pub fn wait(&self) -> Result<(), EngineError> {
        self.pending.marks().try_for_each(|mark| self.engine.sync(mark))
    }

    /// The bytes, or `None` on an engine without data. Waits for the work that writes them.
    pub fn read(&self) -> Result<Option<Vec<u8>>, EngineError> {
        self.wait()?;
        let Some(start) = self.engine.bytes(self.span) else { return Ok(None) };
        // SAFETY: the span lies in a mapped host slab, the storage's `host_pins` keep its block, and all writes to it are done.
        Ok(Some(unsafe { std::slice::from_raw_parts(start, self.span.bytes) }.to_vec()))
    }

    /// Writes the bytes. Waits for earlier work on the same memory.
    ///
    /// # Panics
    /// Panics if there are more or fewer bytes than the storage holds.
    pub fn write(&self, bytes: &[u8]) -> Result<(), EngineError> {
        assert_eq!(bytes.len(), self.span.bytes, "bytes written to a storage must be as many as it holds");
        self.wait()?;
        if let Some(start) = self.engine.bytes(self.span) {
            // SAFETY: the span is valid as in `read`. The storage is new, so nobody else reads or writes its block.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
        }
        Ok(())
    }
}
