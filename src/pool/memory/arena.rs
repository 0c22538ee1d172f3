//! The memory of one tier: slabs mapped from the engine as they are needed, or pages, up to a limit.

use std::sync::Arc;

use super::free_list::Placement;
use super::layout_cursor::Guide;
use super::allocation_trace::Takings;
use super::pages::Paged;
use super::unbounded::Endless;
use crate::engine::{ALIGN_BYTES, Engine, EngineError, Span, Tier, aligned};
use crate::pool::submit::Pending;
use crate::schedule::{IntervalId, Layout, Spot};
use crate::trace::{Event, Journal};
use crate::pool::memory::block::Block;

/// All memory of one tier.
#[derive(Debug)]
pub struct Arena {
    tier: Tier,
    limit_bytes: usize,
    memory: Memory,
    used_bytes: usize,
    peak_bytes: usize,
    peak_reserved_bytes: usize,
    footprint_bytes: usize,
    guide: Guide,
    journal: Journal,
}

/// A block and the work to wait for before writing it, if there is one.
type Placed = Option<(Block, Pending)>;

/// How a tier is mapped.
#[derive(Debug)]
enum Memory {
    Slabs(Slabs),
    Pages(Box<Paged>),
    Endless(Box<Endless>),
}

/// Slabs of `slab_bytes`, or larger if one block needs it.
#[derive(Debug)]
struct Slabs {
    slab_bytes: usize,
    slabs: Vec<Slab>,
}

#[derive(Debug)]
struct Slab {
    span: Span,
    placement: Placement,
    /// How far blocks have reached into it.
    reach_bytes: usize,
}

impl Arena {
    /// An arena that maps slabs of `slab_bytes`, or larger if one block needs it, while the sum stays within the limit.
    pub fn new(tier: Tier, limit_bytes: usize, slab_bytes: usize, journal: Journal) -> Self {
        let memory = Memory::Slabs(Slabs { slab_bytes, slabs: Vec::new() });
        Arena::of(tier, limit_bytes / ALIGN_BYTES * ALIGN_BYTES, memory, journal)
    }

    /// An arena of pages.
    pub fn of_pages(tier: Tier, pages: Paged, journal: Journal) -> Self {
        Arena::of(tier, pages.limit_bytes(), Memory::Pages(Box::new(pages)), journal)
    }

    /// An arena of addresses without end, on an engine that has no data.
    pub fn endless(tier: Tier, limit_bytes: usize, page_bytes: Option<usize>, journal: Journal) -> Self {
        let limit_bytes = limit_bytes / ALIGN_BYTES * ALIGN_BYTES;
        Arena::of(
            tier,
            limit_bytes,
            Memory::Endless(Box::new(Endless::new(limit_bytes, page_bytes))),
            journal,
        )
    }

    fn of(tier: Tier, limit_bytes: usize, memory: Memory, journal: Journal) -> Self {
        let (used_bytes, peak_bytes, peak_reserved_bytes, footprint_bytes) = (0, 0, 0, 0);
        Arena {
            tier,
            limit_bytes,
            memory,
            used_bytes,
            peak_bytes,
            peak_reserved_bytes,
            footprint_bytes,
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
        match &self.memory {
            Memory::Slabs(memory) => memory.reserved_bytes(),
            Memory::Pages(paged) => paged.reserved_bytes(),
            Memory::Endless(_) => 0,
        }
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
        match &self.memory {
            Memory::Pages(paged) => paged.mapped_pages(),
            _ => 0,
        }
    }

    /// An op of a schedule begins, whose blocks are planned or not, or one that none knows.
    pub fn begin_op(&mut self, layout: Option<&Arc<Layout>>, op: u32) {
        self.guide.begin_op(layout, op);
        if let Memory::Endless(endless) = &mut self.memory {
            endless.takings.begin_op(op);
            endless.takes_pages = true;
        }
    }

    /// What the op under way has still to take is where it fits best, and no larger than it is.
    pub fn depart(&mut self) {
        self.guide = Guide::default();
        if let Memory::Endless(endless) = &mut self.memory {
            endless.takes_pages = false;
        }
    }

    /// A block comes for a storage that is in this interval, to be copied into.
    pub fn expect(&mut self, interval: Option<IntervalId>) {
        self.guide.expect(interval);
        if let Memory::Endless(endless) = &mut self.memory {
            endless.takings.expect_copy();
        }
    }

    /// Whether the op under way has planned blocks.
    pub fn has_layout(&self) -> bool {
        self.guide.limit_bytes().is_some()
    }

    /// Which blocks were taken, and when, if addresses have no end.
    pub fn takings(&self) -> Option<&Takings> {
        match &self.memory {
            Memory::Endless(endless) => Some(&endless.takings),
            _ => None,
        }
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
        spot: &Spot,
        bytes: usize,
    ) -> Result<Placed, EngineError> {
        let before_bytes = self.reserved_bytes();
        let placed = match (&mut self.memory, spot) {
            (Memory::Slabs(memory), &Spot::At(offset)) => {
                memory.allocate_at(engine, self.tier, offset, bytes, self.limit_bytes - before_bytes)?
            }
            (Memory::Pages(paged), &Spot::At(offset)) => paged.allocate_at(engine, offset, bytes)?,
            (Memory::Pages(paged), Spot::On(pages)) => paged.allocate_on(engine, pages, bytes)?,
            (Memory::Slabs(_) | Memory::Endless(_), _) => None,
        };
        self.placed(placed, before_bytes);
        Ok(placed)
    }

    /// A block where it fits best.
    pub fn allocate_anywhere(&mut self, engine: &dyn Engine, bytes: usize) -> Result<Placed, EngineError> {
        let before_bytes = self.reserved_bytes();
        let placed = match &mut self.memory {
            Memory::Slabs(memory) => {
                memory.allocate(engine, self.tier, bytes, self.limit_bytes - before_bytes)?
            }
            Memory::Pages(paged) => paged.allocate(engine, bytes)?,
            Memory::Endless(endless) => {
                let bytes_in_memory = endless.bytes_in_memory(bytes);
                (bytes_in_memory <= self.limit_bytes - self.used_bytes).then(|| {
                    let (offset, pending) = endless.allocate(bytes);
                    (Block { slab: 0, offset, bytes: bytes_in_memory }, pending)
                })
            }
        };
        self.placed(placed, before_bytes);
        Ok(placed)
    }

    /// What is free within a range: offsets and sizes.
    pub fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        match &self.memory {
            Memory::Slabs(memory) => {
                memory.slabs.first().map_or(Vec::new(), |slab| slab.placement.free_within(offset, bytes))
            }
            Memory::Pages(paged) => paged.free_within(offset, bytes),
            Memory::Endless(_) => Vec::new(),
        }
    }

    /// The memory of a block, range by range, where blocks have addresses that can be chosen: offsets and sizes.
    pub fn each_range(&self, block: Block, mut found: impl FnMut(usize, usize)) {
        match &self.memory {
            Memory::Pages(paged) => paged.each_range(block, found),
            _ if block.slab == 0 => found(block.offset, block.bytes),
            _ => {}
        }
    }

    /// Whether a block is at a spot.
    pub fn is_at(&self, block: Block, spot: &Spot) -> bool {
        match (&self.memory, spot) {
            (_, &Spot::At(offset)) => (block.slab, block.offset) == (0, offset),
            (Memory::Pages(paged), Spot::On(pages)) => paged.is_on(block, pages),
            (Memory::Slabs(_) | Memory::Endless(_), Spot::On(_)) => false,
        }
    }

    /// The memory of a spot for so many bytes: offsets and sizes.
    pub fn ranges(&self, spot: &Spot, bytes: usize) -> Vec<(usize, usize)> {
        match (&self.memory, spot) {
            (_, &Spot::At(offset)) => vec![(offset, bytes)],
            (Memory::Pages(paged), Spot::On(pages)) => paged.ranges(pages),
            (Memory::Slabs(_) | Memory::Endless(_), Spot::On(_)) => Vec::new(),
        }
    }

    /// Whether a block has memory from `offset` on, so many bytes.
    pub fn overlaps(&self, block: Block, offset: usize, bytes: usize) -> bool {
        let mut overlaps = false;
        self.each_range(block, |at, size| overlaps |= at < offset + bytes && offset < at + size);
        overlaps
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
        let reach_bytes = match &mut self.memory {
            Memory::Slabs(memory) => memory.reached(block),
            Memory::Pages(paged) => paged.reach_bytes(),
            Memory::Endless(_) => self.used_bytes,
        };
        self.footprint_bytes = self.footprint_bytes.max(reach_bytes);
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
        match &mut self.memory {
            Memory::Slabs(memory) => {
                memory.slabs[block.slab as usize].placement.free(block.offset, block.bytes, pending);
            }
            Memory::Pages(paged) => paged.free(block, pending),
            Memory::Endless(endless) => endless.free(block.offset, block.bytes, pending),
        }
        self.journal.note(|| Event::Release { tier: self.tier, address, bytes });
    }

    /// The first `bytes` bytes of a block.
    pub fn span(&self, block: Block, bytes: usize) -> Span {
        debug_assert!(bytes <= block.bytes);
        match &self.memory {
            Memory::Slabs(memory) => memory.slabs[block.slab as usize].span.slice(block.offset, bytes),
            Memory::Pages(paged) => paged.span(block).slice(0, bytes),
            Memory::Endless(_) => Span { tier: self.tier, address: block.offset as u64, bytes },
        }
    }

    /// Starts counting the peak anew from what is in use.
    pub fn reset_peak(&mut self) {
        self.peak_bytes = self.used_bytes;
        self.peak_reserved_bytes = self.reserved_bytes();
        match &mut self.memory {
            Memory::Slabs(memory) => {
                for slab in &mut memory.slabs {
                    slab.reach_bytes = slab.placement.reach_bytes();
                }
                self.footprint_bytes = memory.reach_bytes();
            }
            Memory::Pages(paged) => self.footprint_bytes = paged.reach_bytes(),
            Memory::Endless(_) => self.footprint_bytes = self.used_bytes,
        }
    }

    /// Takes back what was counted since the peak was this.
    pub fn reset_peak_to(&mut self, peak_bytes: usize) {
        self.peak_bytes = peak_bytes.max(self.used_bytes);
    }

    /// Gives memory that no block uses back: single pages, but slabs only all at once. All submitted work must be done.
    pub fn release(&mut self, engine: &dyn Engine) {
        let before_bytes = self.reserved_bytes();
        match &mut self.memory {
            Memory::Slabs(memory) if self.used_bytes == 0 => {
                memory.slabs.drain(..).for_each(|slab| engine.unmap(slab.span));
            }
            Memory::Pages(paged) => paged.release(engine),
            _ => {}
        }
        if self.reserved_bytes() != before_bytes {
            self.note_reserved();
        }
    }
}

impl Slabs {
    /// A block at an address of the first slab, if that is free. There is one from now on.
    fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        tier: Tier,
        offset: usize,
        bytes: usize,
        room_bytes: usize,
    ) -> Result<Placed, EngineError> {
        if self.slabs.is_empty() {
            self.map(engine, tier, self.slab_bytes.min(room_bytes))?;
        }
        let placement = &mut self.slabs[0].placement;
        let is_free = placement.is_free(offset, bytes);
        Ok(is_free.then(|| (Block { slab: 0, offset, bytes }, placement.take(offset, bytes))))
    }

    fn map(&mut self, engine: &dyn Engine, tier: Tier, bytes: usize) -> Result<(), EngineError> {
        let span = engine.map(tier, bytes)?;
        self.slabs.push(Slab { span, placement: Placement::new(bytes), reach_bytes: 0 });
        Ok(())
    }

    fn reserved_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.span.bytes).sum()
    }

    /// A block in the first slab that has room, or in a new one of at most `room_bytes`.
    fn allocate(
        &mut self,
        engine: &dyn Engine,
        tier: Tier,
        bytes: usize,
        room_bytes: usize,
    ) -> Result<Option<(Block, Pending)>, EngineError> {
        for (index, slab) in self.slabs.iter_mut().enumerate() {
            if let Some((offset, pending)) = slab.placement.allocate(bytes) {
                return Ok(Some((Block { slab: index as u32, offset, bytes }, pending)));
            }
        }
        if bytes > room_bytes {
            return Ok(None);
        }
        self.map(engine, tier, self.slab_bytes.max(bytes).min(room_bytes))?;
        let index = self.slabs.len() - 1;
        let placed = self.slabs[index].placement.allocate(bytes);
        let (offset, pending) = placed.expect("a fresh slab holds what it was mapped for");
        Ok(Some((Block { slab: index as u32, offset, bytes }, pending)))
    }

    /// How far blocks have reached, if this one reaches further than any before; else 0.
    fn reached(&mut self, block: Block) -> usize {
        let reach_bytes = &mut self.slabs[block.slab as usize].reach_bytes;
        let end = block.offset + block.bytes;
        if end <= *reach_bytes {
            return 0;
        }
        *reach_bytes = end;
        self.reach_bytes()
    }

    fn reach_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.reach_bytes).sum()
    }
}
