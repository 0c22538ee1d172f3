//! Memory mapped in slabs as it is needed.

use super::address_space::{AddressSpace, Placed, Room};
use super::block::Block;
use super::free_list::Placement;
use crate::engine::{Engine, EngineError, Span, Tier};
use crate::pool::submit::Pending;
use crate::schedule::BlockPlacement;

/// Slabs of `slab_bytes`, or larger if one block needs it.
#[derive(Debug)]
pub struct Slabs {
    tier: Tier,
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

impl Slabs {
    /// No slabs yet.
    pub fn new(tier: Tier, slab_bytes: usize) -> Self {
        Slabs { tier, slab_bytes, slabs: Vec::new() }
    }

    fn map(&mut self, engine: &dyn Engine, bytes: usize) -> Result<(), EngineError> {
        let span = engine.map(self.tier, bytes)?;
        self.slabs.push(Slab { span, placement: Placement::new(bytes), reach_bytes: 0 });
        Ok(())
    }

    fn all_reach_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.reach_bytes).sum()
    }
}

impl AddressSpace for Slabs {
    /// In the first slab that has room, or in a new one.
    fn allocate(&mut self, engine: &dyn Engine, bytes: usize, room: Room) -> Result<Placed, EngineError> {
        for (index, slab) in self.slabs.iter_mut().enumerate() {
            if let Some((offset, pending)) = slab.placement.allocate(bytes) {
                return Ok(Some((Block { slab: index as u32, offset, bytes }, pending)));
            }
        }
        if bytes > room.unmapped_bytes {
            return Ok(None);
        }
        self.map(engine, self.slab_bytes.max(bytes).min(room.unmapped_bytes))?;
        let index = self.slabs.len() - 1;
        let placed = self.slabs[index].placement.allocate(bytes);
        let (offset, pending) = placed.expect("a fresh slab holds what it was mapped for");
        Ok(Some((Block { slab: index as u32, offset, bytes }, pending)))
    }

    /// Addresses are those of the first slab. There is one from now on.
    fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        spot: &BlockPlacement,
        bytes: usize,
        room: Room,
    ) -> Result<Placed, EngineError> {
        let &BlockPlacement::At(offset) = spot else { return Ok(None) };
        if self.slabs.is_empty() {
            self.map(engine, self.slab_bytes.min(room.unmapped_bytes))?;
        }
        let placement = &mut self.slabs[0].placement;
        let is_free = placement.is_free(offset, bytes);
        Ok(is_free.then(|| (Block { slab: 0, offset, bytes }, placement.take(offset, bytes))))
    }

    fn free(&mut self, block: Block, pending: Pending) {
        self.slabs[block.slab as usize].placement.free(block.offset, block.bytes, pending);
    }

    fn span(&self, block: Block, bytes: usize) -> Span {
        self.slabs[block.slab as usize].span.slice(block.offset, bytes)
    }

    fn reach_bytes(&mut self, block: Option<Block>) -> usize {
        let Some(block) = block else {
            self.slabs.iter_mut().for_each(|slab| slab.reach_bytes = slab.placement.reach_bytes());
            return self.all_reach_bytes();
        };
        let reach_bytes = &mut self.slabs[block.slab as usize].reach_bytes;
        let end = block.offset + block.bytes;
        if end <= *reach_bytes {
            return 0;
        }
        *reach_bytes = end;
        self.all_reach_bytes()
    }

    /// All slabs, or none while one is in use.
    fn release(&mut self, engine: &dyn Engine) {
        if self.slabs.iter().all(|slab| slab.placement.reach_bytes() == 0) {
            self.slabs.drain(..).for_each(|slab| engine.unmap(slab.span));
        }
    }

    fn reserved_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.span.bytes).sum()
    }

    fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        self.slabs.first().map_or(Vec::new(), |slab| slab.placement.free_within(offset, bytes))
    }
}
