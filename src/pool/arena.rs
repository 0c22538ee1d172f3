//! The memory of one tier: slabs mapped from the engine as they are needed, or pages, up to a limit.

use super::lease::Pending;
use super::paged::Paged;
use super::placement::Placement;
use crate::engine::{ALIGN_BYTES, Engine, EngineError, Span, Tier, aligned};
use crate::trace::{Event, Journal};

/// A range of a slab, or of addresses that pages are behind, that a storage, or an op's scratch, holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    pub(super) slab: u32,
    pub(super) offset: usize,
    /// Size, rounded up to the alignment, or to whole pages: what the budget counts.
    pub bytes: usize,
}

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
    journal: Journal,
}

/// How a tier is mapped.
#[derive(Debug)]
enum Memory {
    Slabs(Slabs),
    Pages(Box<Paged>),
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
            Memory::Slabs(_) => 0,
            Memory::Pages(paged) => paged.mapped_pages(),
        }
    }

    /// A block of at least `bytes`, with the work to wait for before writing it; `None` if there is no room.
    pub fn allocate(
        &mut self,
        engine: &dyn Engine,
        bytes: usize,
    ) -> Result<Option<(Block, Pending)>, EngineError> {
        let bytes = aligned(bytes);
        let before_bytes = self.reserved_bytes();
        let placed = match &mut self.memory {
            Memory::Slabs(memory) => {
                memory.allocate(engine, self.tier, bytes, self.limit_bytes - before_bytes)?
            }
            Memory::Pages(paged) => paged.allocate(engine, bytes)?,
        };
        if self.reserved_bytes() != before_bytes {
            self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes());
            self.note_reserved();
        }
        if let Some((block, _)) = placed {
            self.took(block);
        }
        Ok(placed)
    }

    fn took(&mut self, block: Block) {
        self.used_bytes += block.bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        assert!(self.used_bytes <= self.limit_bytes, "{:?} memory in use exceeds its limit", self.tier);
        let reach_bytes = match &mut self.memory {
            Memory::Slabs(memory) => memory.reached(block),
            Memory::Pages(paged) => paged.reach_bytes(),
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
        }
        self.journal.note(|| Event::Release { tier: self.tier, address, bytes });
    }

    /// The first `bytes` bytes of a block.
    pub fn span(&self, block: Block, bytes: usize) -> Span {
        debug_assert!(bytes <= block.bytes);
        match &self.memory {
            Memory::Slabs(memory) => memory.slabs[block.slab as usize].span.slice(block.offset, bytes),
            Memory::Pages(paged) => paged.span(block).slice(0, bytes),
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
        }
    }

    /// Gives memory that no block uses back: single pages, but slabs only all at once. All submitted work must be done.
    pub fn release(&mut self, engine: &dyn Engine) {
        let before_bytes = self.reserved_bytes();
        match &mut self.memory {
            Memory::Slabs(memory) if self.used_bytes == 0 => {
                memory.slabs.drain(..).for_each(|slab| engine.unmap(slab.span));
            }
            Memory::Slabs(_) => {}
            Memory::Pages(paged) => paged.release(engine),
        }
        if self.reserved_bytes() != before_bytes {
            self.note_reserved();
        }
    }
}

impl Slabs {
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
        let span = engine.map(tier, self.slab_bytes.max(bytes).min(room_bytes))?;
        let mut placement = Placement::new(span.bytes);
        let (offset, pending) = placement.allocate(bytes).expect("a fresh slab holds what it was mapped for");
        self.slabs.push(Slab { span, placement, reach_bytes: 0 });
        Ok(Some((Block { slab: self.slabs.len() as u32 - 1, offset, bytes }, pending)))
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
