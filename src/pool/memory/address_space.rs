//! What the ways to map a tier have in common.

use std::fmt::Debug;

use super::allocation_trace::Takings;
use super::block::Block;
use crate::engine::{Engine, EngineError, Span};
use crate::pool::submit::Pending;
use crate::schedule::BlockPlacement;

/// A block and the work to wait for before writing it, if there is one.
pub type Placed = Option<(Block, Pending)>;

/// What a tier has left within its limit.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes that may still be mapped.
    pub unmapped_bytes: usize,
    /// Bytes that are in no block.
    pub free_bytes: usize,
}

/// The addresses of one tier, and the memory behind them.
pub trait AddressSpace: Debug + Send {
    /// A block where it fits best; `None` if there is no room.
    fn allocate(&mut self, engine: &dyn Engine, bytes: usize, room: Room) -> Result<Placed, EngineError>;

    /// A block at a certain place; `None` if that is not free, or addresses cannot be chosen.
    fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        spot: &BlockPlacement,
        bytes: usize,
        room: Room,
    ) -> Result<Placed, EngineError>;

    /// Returns a block, free from now on for whoever waits for `pending`.
    fn free(&mut self, block: Block, pending: Pending);

    /// The first `bytes` bytes of a block.
    fn span(&self, block: Block, bytes: usize) -> Span;

    /// How far blocks have reached into memory: with this one, or, if there is none, with those that there are now. It may be less
    /// than before.
    fn reach_bytes(&mut self, block: Option<Block>) -> usize;

    /// Gives memory that no block uses back to the system. All submitted work must be done.
    fn release(&mut self, engine: &dyn Engine);

    /// Bytes mapped now.
    fn reserved_bytes(&self) -> usize {
        0
    }

    /// Pages mapped so far, each as often as it was.
    fn mapped_pages(&self) -> u64 {
        0
    }

    /// What is free within a range: offsets and sizes.
    fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        let _ = (offset, bytes);
        Vec::new()
    }

    /// The memory of a block, range by range, where blocks have addresses that can be chosen: offsets and sizes.
    fn each_range(&self, block: Block, found: &mut dyn FnMut(usize, usize)) {
        if block.slab == 0 {
            found(block.offset, block.bytes);
        }
    }

    /// Whether a block is at a certain place.
    fn is_at(&self, block: Block, spot: &BlockPlacement) -> bool {
        matches!(spot, &BlockPlacement::At(offset) if (block.slab, block.offset) == (0, offset))
    }

    /// The memory of a place for so many bytes: offsets and sizes.
    fn ranges(&self, spot: &BlockPlacement, bytes: usize) -> Vec<(usize, usize)> {
        match spot {
            &BlockPlacement::At(offset) => vec![(offset, bytes)],
            BlockPlacement::On(_) => Vec::new(),
        }
    }

    /// An op of a schedule begins.
    fn begin_op(&mut self, op: u32) {
        let _ = op;
    }

    /// Until the next op, blocks are no larger than what was asked for.
    fn depart(&mut self) {}

    /// The next block is for a copy from the host.
    fn expect_copy(&mut self) {}

    /// Which blocks were taken, and when, if that is noted.
    fn allocation_trace(&self) -> Option<&Takings> {
        None
    }
}
