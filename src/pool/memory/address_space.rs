//! The interface of the three ways to lay out a tier: slabs, pages and unbounded addresses.

use std::fmt::Debug;

use super::allocation_trace::AllocationTrace;
use super::block::Block;
use crate::engine::{Engine, EngineError, Span};
use crate::pool::submit::PendingWork;
use crate::schedule::BlockPlacement;

/// A block and the work to wait for before it is written; `None` if there was no room.
pub type Placed = Option<(Block, PendingWork)>;

/// How many bytes a tier has left within its limit.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The bytes that may still be mapped.
    pub unmapped_bytes: usize,
    /// The bytes that are in no block.
    pub free_bytes: usize,
}

/// The addresses of one tier, and the memory behind them.
pub trait AddressSpace: Debug + Send {
    /// Allocates a block where it fits best; `None` if there is no room.
    fn allocate(&mut self, engine: &dyn Engine, bytes: usize, room: Room) -> Result<Placed, EngineError>;

    /// Allocates a block at the end, out of the way of all others, where addresses have an end.
    fn allocate_last(
        &mut self,
        engine: &dyn Engine,
        bytes: usize,
        room: Room,
    ) -> Result<Placed, EngineError> {
        self.allocate(engine, bytes, room)
    }

    /// Allocates a block at a given placement; `None` if that is not free, or if addresses cannot be chosen.
    fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        placement: &BlockPlacement,
        bytes: usize,
        room: Room,
    ) -> Result<Placed, EngineError>;

    /// The number of pages that the next block of this size would join by a mapping; 0 if it fits without one, or not at all.
    fn joined_pages(&self, bytes: usize) -> usize {
        let _ = bytes;
        0
    }

    /// Frees a block. It can be allocated at once, but whoever gets it must wait for `pending`.
    fn free(&mut self, block: Block, pending: PendingWork);

    /// The first `bytes` bytes of a block.
    fn span(&self, block: Block, bytes: usize) -> Span;

    /// How far blocks have reached into memory. With a block, the reach includes that new block. Without one, it is counted anew
    /// from the blocks that exist, and may become less.
    fn reach_bytes(&mut self, block: Option<Block>) -> usize;

    /// Returns unused memory to the system. All submitted work must be done.
    fn release(&mut self, engine: &dyn Engine);

    /// The bytes that are mapped now.
    fn reserved_bytes(&self) -> usize {
        0
    }

    /// How many times a page was mapped so far.
    fn mapped_pages(&self) -> u64 {
        0
    }

    /// The free parts of a range, as offsets and sizes.
    fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        let _ = (offset, bytes);
        Vec::new()
    }

    /// Passes each range of memory of a block to `found`, as offset and size. Slabs after the first pass none.
    fn each_range(&self, block: Block, found: &mut dyn FnMut(usize, usize)) {
        if block.slab == 0 {
            found(block.offset, block.bytes);
        }
    }

    /// Whether a block is at a placement.
    fn is_at(&self, block: Block, placement: &BlockPlacement) -> bool {
        matches!(placement, &BlockPlacement::At(offset) if (block.slab, block.offset) == (0, offset))
    }

    /// The ranges of memory that `bytes` at a placement take, as offsets and sizes.
    fn ranges(&self, placement: &BlockPlacement, bytes: usize) -> Vec<(usize, usize)> {
        match placement {
            &BlockPlacement::At(offset) => vec![(offset, bytes)],
            BlockPlacement::On(_) => Vec::new(),
        }
    }

    /// Notes that an op of a schedule begins.
    fn begin_op(&mut self, op: u32) {
        let _ = op;
    }

    /// Makes blocks no larger than what is asked for, until the next op begins.
    fn depart(&mut self) {}

    /// Announces that the next block is for a copy from the host.
    fn expect_copy(&mut self) {}

    /// The blocks that were taken and freed, if this address space records them.
    fn allocation_trace(&self) -> Option<&AllocationTrace> {
        None
    }
}
