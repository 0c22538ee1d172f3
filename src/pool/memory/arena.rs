//! The memory of one tier, up to a limit.

use std::sync::Arc;

use super::address_space::{AddressSpace, Placed, Room};
use super::allocation_trace::Takings;
use super::block::Block;
use super::layout_cursor::Guide;
use crate::engine::{ALIGN_BYTES, Engine, EngineError, Span, Tier, aligned};
use crate::pool::submit::Pending;
use crate::schedule::{BlockPlacement, IntervalId, Layout};
use crate::trace::{Event, Journal};

/// All memory of one tier.
#[derive(Debug)]
pub struct Arena {
    tier: Tier,
    limit_bytes: usize,
    space: Box<dyn AddressSpace>,
    used_bytes: usize,
    peak_bytes: usize,
    peak_reserved_bytes: usize,
    footprint_bytes: usize,
    guide: Guide,
    journal: Journal,
}

impl Arena {
    /// An empty arena of these addresses, within a limit, which is rounded down to the alignment.
    pub fn new(tier: Tier, limit_bytes: usize, space: Box<dyn AddressSpace>, journal: Journal) -> Self {
        Arena {
            tier,
            limit_bytes: limit_bytes / ALIGN_BYTES * ALIGN_BYTES,
            space,
            used_bytes: 0,
            peak_bytes: 0,
            peak_reserved_bytes: 0,
            footprint_bytes: 0,
            guide: Guide::default(),
            journal,
        }
    }

    /// The most bytes there can be: a multiple of the alignment, or of the page.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Bytes in blocks now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The most bytes in blocks at once so far.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Bytes mapped now.
    pub fn reserved_bytes(&self) -> usize {
        self.space.reserved_bytes()
    }

    /// The most bytes mapped at once so far.
    pub fn peak_reserved_bytes(&self) -> usize {
        self.peak_reserved_bytes
    }

    /// How far blocks have reached into memory: the most bytes in blocks at once, and what lay unused between them.
    pub fn footprint_bytes(&self) -> usize {
        self.footprint_bytes
    }

    /// Pages mapped so far, each as often as it was.
    pub fn mapped_pages(&self) -> u64 {
        self.space.mapped_pages()
    }

    /// An op of a schedule begins, whose blocks are planned or not, or one that none knows.
    pub fn begin_op(&mut self, layout: Option<&Arc<Layout>>, op: u32) {
        self.guide.begin_op(layout, op);
        self.space.begin_op(op);
    }

    /// What the op under way has still to take is where it fits best, and no larger than it is.
    pub fn depart(&mut self) {
        self.guide = Guide::default();
        self.space.depart();
    }

    /// A block comes for a storage that is in this interval, to be copied into.
    pub fn expect(&mut self, interval: Option<IntervalId>) {
        self.guide.expect(interval);
        self.space.expect_copy();
    }

    /// Whether the op under way has planned blocks.
    pub fn has_layout(&self) -> bool {
        self.guide.limit_bytes().is_some()
    }

    /// Which blocks were taken, and when, if addresses have no end.
    pub fn takings(&self) -> Option<&Takings> {
        self.space.allocation_trace()
    }

    /// Bytes that are in no block, of as many as the plan has in blocks.
    pub fn free_bytes(&self) -> usize {
        let limit_bytes = self.guide.limit_bytes().unwrap_or(self.limit_bytes);
        limit_bytes.saturating_sub(self.used_bytes)
    }

    /// A block of at least `bytes`, with the work to wait for before writing it; `None` if there is no room, or the plan has
    /// no more bytes in blocks.
    pub fn allocate(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        if aligned(bytes) > self.free_bytes() {
            return Ok(None);
        }
        self.allocate_beyond(engine, bytes)
    }

    /// [`allocate`](Arena::allocate), of all there is: at the planned address, if there is one and it is free.
    pub fn allocate_beyond(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        let bytes = aligned(bytes);
        let planned = self.guide.next(bytes);
        let mut placed = None;
        if let Some(planned) = &planned {
            placed = self.allocate_at(engine, &planned.spot, bytes)?;
        }
        if placed.is_none() {
            placed = self.allocate_anywhere(engine, bytes)?;
        }
        if let (Some(planned), Some(_)) = (&planned, placed) {
            self.guide.took(planned);
        }
        Ok(placed)
    }

    /// A block at a certain spot; `None` if it is not free.
    pub fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        spot: &BlockPlacement,
        bytes: usize,
    ) -> Result<Placed, EngineError> {
        let (before_bytes, room) = (self.reserved_bytes(), self.room());
        let placed = self.space.allocate_at(engine, spot, bytes, room)?;
        self.placed(placed, before_bytes);
        Ok(placed)
    }

    /// A block where it fits best.
    pub fn allocate_anywhere(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        let (before_bytes, room) = (self.reserved_bytes(), self.room());
        let placed = self.space.allocate(engine, bytes, room)?;
        self.placed(placed, before_bytes);
        Ok(placed)
    }

    /// What is free within a range: offsets and sizes.
    pub fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        self.space.free_within(offset, bytes)
    }

    /// The memory of a block, range by range, where blocks have addresses that can be chosen: offsets and sizes.
    pub fn each_range(&self, block: Block, mut found: impl FnMut(usize, usize)) {
        self.space.each_range(block, &mut found);
    }

    /// Whether a block is at a spot.
    pub fn is_at(&self, block: Block, spot: &BlockPlacement) -> bool {
        self.space.is_at(block, spot)
    }

    /// The memory of a spot for so many bytes: offsets and sizes.
    pub fn ranges(&self, spot: &BlockPlacement, bytes: usize) -> Vec<(usize, usize)> {
        self.space.ranges(spot, bytes)
    }

    /// Whether a block has memory from `offset` on, so many bytes.
    pub fn overlaps(&self, block: Block, offset: usize, bytes: usize) -> bool {
        let mut overlaps = false;
        self.each_range(block, |at, size| overlaps |= at < offset + bytes && offset < at + size);
        overlaps
    }

    fn room(&self) -> Room {
        Room {
            unmapped_bytes: self.limit_bytes.saturating_sub(self.reserved_bytes()),
            free_bytes: self.limit_bytes - self.used_bytes,
        }
    }

    fn placed(&mut self, placed: Placed, before_bytes: usize) {
        if self.reserved_bytes() != before_bytes {
            self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes());
            self.note_reserved();
        }
        if let Some((block, _)) = placed {
            self.took(block);
        }
    }

    fn took(&mut self, block: Block) {
        self.used_bytes += block.bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        assert!(self.used_bytes <= self.limit_bytes, "{:?} memory in use exceeds its limit", self.tier);
        self.footprint_bytes = self.footprint_bytes.max(self.space.reach_bytes(Some(block)));
        let Span { address, bytes, .. } = self.span(block, block.bytes);
        self.journal.note(|| Event::Allocate { tier: self.tier, address, bytes });
    }

    fn note_reserved(&self) {
        self.journal.note(|| Event::Reserve { tier: self.tier, bytes: self.reserved_bytes() });
    }

    /// Returns a block, free from now on for whoever waits for `pending`.
    pub fn free(&mut self, block: Block, pending: Pending) {
        self.used_bytes -= block.bytes;
        let Span { address, bytes, .. } = self.span(block, block.bytes);
        self.space.free(block, pending);
        self.journal.note(|| Event::Release { tier: self.tier, address, bytes });
    }

    /// The first `bytes` bytes of a block.
    pub fn span(&self, block: Block, bytes: usize) -> Span {
        debug_assert!(bytes <= block.bytes);
        self.space.span(block, bytes)
    }

    /// Starts counting the peak anew from what is in use.
    pub fn reset_peak(&mut self) {
        self.peak_bytes = self.used_bytes;
        self.peak_reserved_bytes = self.reserved_bytes();
        self.footprint_bytes = self.space.reach_bytes(None);
    }

    /// Takes back what was counted since the peak was this.
    pub fn reset_peak_to(&mut self, peak_bytes: usize) {
        self.peak_bytes = peak_bytes.max(self.used_bytes);
    }

    /// Gives memory that no block uses back: single pages, but slabs only all at once. All submitted work must be done.
    pub fn release(&mut self, engine: &dyn Engine) {
        let before_bytes = self.reserved_bytes();
        self.space.release(engine);
        if self.reserved_bytes() != before_bytes {
            self.note_reserved();
        }
    }
}
