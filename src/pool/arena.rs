//! The memory of one tier: slabs mapped from the engine as they are needed, up to a limit.

use super::lease::Pending;
use super::placement::Placement;
use crate::engine::{Engine, EngineError, Span, Tier, aligned};
use crate::trace::{Event, Journal};

/// A range of a slab that a storage, or an op's scratch, holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    slab: u32,
    offset: usize,
    /// Size, rounded up to the alignment: what the budget counts.
    pub bytes: usize,
}

/// All memory of one tier.
#[derive(Debug)]
pub struct Arena {
    tier: Tier,
    limit_bytes: usize,
    slab_bytes: usize,
    slabs: Vec<Slab>,
    used_bytes: usize,
    peak_bytes: usize,
    peak_reserved_bytes: usize,
    footprint_bytes: usize,
    journal: Journal,
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
        Arena {
            tier,
            limit_bytes: limit_bytes / crate::engine::ALIGN_BYTES * crate::engine::ALIGN_BYTES,
            slab_bytes,
            slabs: Vec::new(),
            used_bytes: 0,
            peak_bytes: 0,
            peak_reserved_bytes: 0,
            footprint_bytes: 0,
            journal,
        }
    }

    /// The most bytes there can be: a multiple of the alignment.
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
        self.slabs.iter().map(|slab| slab.span.bytes).sum()
    }

    /// The most bytes mapped at once so far.
    pub fn peak_reserved_bytes(&self) -> usize {
        self.peak_reserved_bytes
    }

    /// How far blocks have reached into their slabs: the most bytes in blocks at once, and what lay unused between them.
    pub fn footprint_bytes(&self) -> usize {
        self.footprint_bytes
    }

    /// A block of at least `bytes`, with the work to wait for before writing it; `None` if there is no room.
    pub fn allocate(
        &mut self,
        engine: &dyn Engine,
        bytes: usize,
    ) -> Result<Option<(Block, Pending)>, EngineError> {
        let bytes = aligned(bytes);
        for (index, slab) in self.slabs.iter_mut().enumerate() {
            if let Some((offset, pending)) = slab.placement.allocate(bytes) {
                return Ok(Some((self.took(index, offset, bytes), pending)));
            }
        }
        let room = self.limit_bytes - self.reserved_bytes();
        if bytes > room {
            return Ok(None);
        }
        let span = engine.map(self.tier, self.slab_bytes.max(bytes).min(room))?;
        let mut placement = Placement::new(span.bytes);
        let (offset, pending) = placement.allocate(bytes).expect("a fresh slab holds what it was mapped for");
        self.slabs.push(Slab { span, placement, reach_bytes: 0 });
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes());
        self.note_reserved();
        Ok(Some((self.took(self.slabs.len() - 1, offset, bytes), pending)))
    }

    fn took(&mut self, slab: usize, offset: usize, bytes: usize) -> Block {
        self.used_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        assert!(self.used_bytes <= self.limit_bytes, "{:?} memory in use exceeds its limit", self.tier);
        if offset + bytes > self.slabs[slab].reach_bytes {
            self.slabs[slab].reach_bytes = offset + bytes;
            self.footprint_bytes =
                self.footprint_bytes.max(self.slabs.iter().map(|slab| slab.reach_bytes).sum());
        }
        let address = self.slabs[slab].span.address + offset as u64;
        self.journal.note(|| Event::Allocate { tier: self.tier, address, bytes });
        Block { slab: slab as u32, offset, bytes }
    }

    fn note_reserved(&self) {
        self.journal.note(|| Event::Reserve { tier: self.tier, bytes: self.reserved_bytes() });
    }

    /// Returns a block, free from now on for whoever waits for `pending`.
    pub fn free(&mut self, block: Block, pending: Pending) {
        self.used_bytes -= block.bytes;
        let slab = &mut self.slabs[block.slab as usize];
        slab.placement.free(block.offset, block.bytes, pending);
        let (address, bytes) = (slab.span.address + block.offset as u64, block.bytes);
        self.journal.note(|| Event::Release { tier: self.tier, address, bytes });
    }

    /// The first `bytes` bytes of a block.
    pub fn span(&self, block: Block, bytes: usize) -> Span {
        debug_assert!(bytes <= block.bytes);
        self.slabs[block.slab as usize].span.slice(block.offset, bytes)
    }

    /// Starts counting the peak anew from what is in use.
    pub fn reset_peak(&mut self) {
        self.peak_bytes = self.used_bytes;
        self.peak_reserved_bytes = self.reserved_bytes();
        for slab in &mut self.slabs {
            slab.reach_bytes = slab.placement.reach_bytes();
        }
        self.footprint_bytes = self.slabs.iter().map(|slab| slab.reach_bytes).sum();
    }

    /// Gives all slabs back if no block is in use. All submitted work must be done.
    pub fn release(&mut self, engine: &dyn Engine) {
        if self.used_bytes == 0 {
            for slab in self.slabs.drain(..) {
                engine.unmap(slab.span);
            }
            self.note_reserved();
        }
    }
}
