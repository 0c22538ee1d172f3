//! The memory of one tier, up to a limit.
//!
//! The arena counts bytes and asks the layout cursor for planned placements. Its [`AddressSpace`] decides where blocks go.

use std::sync::Arc;

use super::address_space::{AddressSpace, Placed, Room};
use super::allocation_trace::AllocationTrace;
use super::block::Block;
use super::layout_cursor::LayoutCursor;
use crate::engine::{ALIGN_BYTES, Engine, EngineError, MapError, Span, Tier, aligned};
use crate::messages;
use crate::pool::submit::PendingWork;
use crate::schedule::{BlockPlacement, IntervalId, Layout};
use crate::trace::{Event, Journal};

/// All memory of one tier.
#[derive(Debug)]
pub struct Arena {
    tier: Tier,
    limit_bytes: usize,
    /// Blocks are multiples of this.
    unit_bytes: usize,
    /// The limit before the system had no more memory, until it is taken.
    lowered_from_bytes: Option<usize>,
    space: Box<dyn AddressSpace>,
    used_bytes: usize,
    peak_bytes: usize,
    interval_peak_bytes: usize,
    peak_reserved_bytes: usize,
    footprint_bytes: usize,
    layout_cursor: LayoutCursor,
    journal: Journal,
}

impl Arena {
    /// Creates an empty arena on an address space. The limit is rounded down to the alignment.
    pub fn new(tier: Tier, limit_bytes: usize, space: Box<dyn AddressSpace>, journal: Journal) -> Self {
        Arena {
            tier,
            limit_bytes: limit_bytes / ALIGN_BYTES * ALIGN_BYTES,
            unit_bytes: ALIGN_BYTES,
            lowered_from_bytes: None,
            space,
            used_bytes: 0,
            peak_bytes: 0,
            interval_peak_bytes: 0,
            peak_reserved_bytes: 0,
            footprint_bytes: 0,
            layout_cursor: LayoutCursor::default(),
            journal,
        }
    }

    /// The same arena with blocks that are multiples of `unit_bytes`, and therefore begin at multiples of it.
    pub fn with_unit(self, unit_bytes: usize) -> Self {
        Arena { unit_bytes, limit_bytes: self.limit_bytes / unit_bytes * unit_bytes, ..self }
    }

    /// What a block of so many bytes takes.
    pub fn in_block(&self, bytes: usize) -> usize {
        aligned(bytes).next_multiple_of(self.unit_bytes)
    }

    /// The most bytes that blocks can take. It is a multiple of the alignment, or of the page size.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// The bytes in blocks now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The most bytes in blocks at once so far.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// The bytes that are mapped now.
    pub fn reserved_bytes(&self) -> usize {
        self.space.reserved_bytes()
    }

    /// The most bytes that were mapped at once so far.
    pub fn peak_reserved_bytes(&self) -> usize {
        self.peak_reserved_bytes
    }

    /// How far blocks have reached into memory. This includes the unused bytes between them.
    pub fn footprint_bytes(&self) -> usize {
        self.footprint_bytes
    }

    /// How many times a page was mapped so far.
    pub fn mapped_pages(&self) -> u64 {
        self.space.mapped_pages()
    }

    /// Begins an op. With a layout, the blocks that the op takes have planned placements.
    pub fn begin_op(&mut self, layout: Option<&Arc<Layout>>, op: u32) {
        self.layout_cursor.begin_op(layout, op);
        self.space.begin_op(op);
    }

    /// Ends the guidance of the plan for the rest of the op: its other blocks go where they fit best, with no more bytes than
    /// they need.
    pub fn depart(&mut self) {
        self.layout_cursor = LayoutCursor::default();
        self.space.depart();
    }

    /// Announces that the next block is for a copy of a storage that is in this interval.
    pub fn expect(&mut self, interval: Option<IntervalId>) {
        self.layout_cursor.expect(interval);
        self.space.expect_copy();
    }

    /// Whether the current op follows a layout.
    pub fn has_layout(&self) -> bool {
        self.layout_cursor.limit_bytes().is_some()
    }

    /// Which blocks were taken and freed, if addresses are unbounded.
    pub fn allocation_trace(&self) -> Option<&AllocationTrace> {
        self.space.allocation_trace()
    }

    /// The bytes that may still be allocated: up to the limit of the layout if there is one, else up to the arena's.
    pub fn free_bytes(&self) -> usize {
        let limit_bytes = self.layout_cursor.limit_bytes().unwrap_or(self.limit_bytes);
        limit_bytes.saturating_sub(self.used_bytes)
    }

    /// Allocates a block of at least `bytes`, with the pending work to wait for before it is written. Returns `None` if there
    /// is no room, or if the layout's limit is reached.
    pub fn allocate(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        if self.in_block(bytes) > self.free_bytes() {
            return Ok(None);
        }
        self.allocate_beyond_plan(engine, bytes)
    }

    /// Like [`allocate`](Arena::allocate), but ignores the layout's limit. The block goes to its planned placement if it has
    /// one that is free.
    pub fn allocate_beyond_plan(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        let bytes = self.in_block(bytes);
        let planned = self.layout_cursor.next(bytes);
        let mut placed = None;
        if let Some(planned) = &planned {
            placed = self.allocate_at(engine, &planned.placement, bytes)?;
        }
        if placed.is_none() {
            placed = self.allocate_anywhere(engine, bytes)?;
        }
        if let (Some(planned), Some(_)) = (&planned, placed) {
            self.layout_cursor.took(planned);
        }
        Ok(placed)
    }

    /// Allocates a block at a given placement; `None` if that is not free.
    pub fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        placement: &BlockPlacement,
        bytes: usize,
    ) -> Result<Placed, EngineError> {
        let (before_bytes, room) = (self.reserved_bytes(), self.room());
        let placed = self.space.allocate_at(engine, placement, bytes, room);
        let placed = self.unless_exhausted(engine, placed)?;
        self.placed(placed, before_bytes);
        Ok(placed)
    }

    /// Allocates a block where it fits best.
    pub fn allocate_anywhere(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        let (before_bytes, room) = (self.reserved_bytes(), self.room());
        let placed = self.space.allocate(engine, bytes, room);
        let placed = self.unless_exhausted(engine, placed)?;
        self.placed(placed, before_bytes);
        Ok(placed)
    }

    /// Allocates a block at the end, out of the way of all others.
    pub fn allocate_last(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        let (bytes, before_bytes, room) = (self.in_block(bytes), self.reserved_bytes(), self.room());
        if bytes > room.free_bytes {
            return Ok(None);
        }
        let placed = self.space.allocate_last(engine, bytes, room);
        let placed = self.unless_exhausted(engine, placed)?;
        self.placed(placed, before_bytes);
        Ok(placed)
    }

    /// The number of pages that the next block would join by a mapping; 0 if it has a planned placement, fits without a mapping, or
    /// does not fit.
    pub fn joined_pages(&self, bytes: usize) -> usize {
        if self.has_layout() { 0 } else { self.space.joined_pages(self.in_block(bytes)) }
    }

    /// The free parts of a range, as offsets and sizes.
    pub fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        self.space.free_within(offset, bytes)
    }

    /// Passes each range of memory of a block to `found`, as offset and size. Slabs after the first pass none.
    pub fn each_range(&self, block: Block, mut found: impl FnMut(usize, usize)) {
        self.space.each_range(block, &mut found);
    }

    /// Whether a block is at a placement.
    pub fn is_at(&self, block: Block, placement: &BlockPlacement) -> bool {
        self.space.is_at(block, placement)
    }

    /// The ranges of memory that `bytes` at a placement take, as offsets and sizes.
    pub fn ranges(&self, placement: &BlockPlacement, bytes: usize) -> Vec<(usize, usize)> {
        self.space.ranges(placement, bytes)
    }

    /// What the address space may still use.
    fn room(&self) -> Room {
        Room {
            unmapped_bytes: self.limit_bytes.saturating_sub(self.reserved_bytes()),
            free_bytes: self.limit_bytes - self.used_bytes,
        }
    }

    /// If the system has less memory than the limit says, because another program took it, the limit becomes what is mapped.
    fn unless_exhausted(
        &mut self,
        engine: &dyn Engine,
        placed: Result<Placed, EngineError>,
    ) -> Result<Placed, EngineError> {
        match placed {
            Err(error) if self.tier != Tier::Device && error.is_exhausted() => {
                let (tier, bytes) = (self.tier, self.reserved_bytes());
                messages::tell(
                    log::Level::Warn,
                    format_args!("the {tier:?} tier ends at {bytes} bytes: {error}"),
                );
                self.lowered_from_bytes.get_or_insert(self.limit_bytes);
                self.limit_bytes = self.reserved_bytes();
                engine.bound(tier, self.limit_bytes);
                Ok(None)
            }
            // A block that is larger than a slab finds no room on any one device.
            Err(EngineError::Map { reason: MapError::TooLargeForOne, .. }) => Ok(None),
            Err(error) if self.tier == Tier::Device && error.is_exhausted() && self.reserved_bytes() > 0 => {
                self.lowered_from_bytes.get_or_insert(self.limit_bytes);
                self.limit_bytes = self.reserved_bytes();
                Ok(None)
            }
            placed => placed,
        }
    }

    /// The limit before the system had no more memory.
    pub fn allowed_bytes(&self) -> usize {
        self.lowered_from_bytes.unwrap_or(self.limit_bytes)
    }

    /// What the limit was, once after it was lowered.
    pub fn take_lowered_from(&mut self) -> Option<usize> {
        self.lowered_from_bytes.take()
    }

    /// Counts and notes a block that may have been placed, and memory that was mapped for it; `before_bytes` were mapped before.
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
        self.interval_peak_bytes = self.interval_peak_bytes.max(self.used_bytes);
        assert!(self.used_bytes <= self.limit_bytes, "{:?} memory in use exceeds its limit", self.tier);
        self.footprint_bytes = self.footprint_bytes.max(self.space.reach_bytes(Some(block)));
        let Span { address, bytes, .. } = self.span(block, block.bytes);
        self.journal.note(|| Event::Allocate { tier: self.tier, address, bytes });
    }

    fn note_reserved(&self) {
        self.journal.note(|| Event::Reserve { tier: self.tier, bytes: self.reserved_bytes() });
    }

    /// Frees a block. It can be allocated at once, but whoever gets it must wait for `pending`.
    pub fn free(&mut self, block: Block, pending: PendingWork) {
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

    /// The most bytes in use since the last call.
    #[cfg(feature = "train")]
    pub fn take_interval_peak(&mut self) -> usize {
        std::mem::replace(&mut self.interval_peak_bytes, self.used_bytes)
    }

    /// Resets the peaks to what is in use now.
    pub fn reset_peak(&mut self) {
        self.peak_bytes = self.used_bytes;
        self.peak_reserved_bytes = self.reserved_bytes();
        self.footprint_bytes = self.space.reach_bytes(None);
    }

    /// Sets the peak back to an earlier value, so that what was allocated since does not count.
    pub fn reset_peak_to(&mut self, peak_bytes: usize) {
        self.peak_bytes = peak_bytes.max(self.used_bytes);
    }

    /// Returns unused memory to the system: pages one by one, slabs only if all of them are unused. All submitted work must be
    /// done.
    pub fn release(&mut self, engine: &dyn Engine) {
        let before_bytes = self.reserved_bytes();
        self.space.release(engine);
        if self.reserved_bytes() != before_bytes {
            self.note_reserved();
        }
    }
}
