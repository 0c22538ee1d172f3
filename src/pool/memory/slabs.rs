//! Memory that is mapped in slabs when it is needed.

use super::address_space::{AddressSpace, Placed, Room};
use super::block::Block;
use super::free_list::FreeList;
use crate::engine::{DISK_ALIGN_BYTES, Engine, EngineError, Span, Tier};
use crate::pool::submit::PendingWork;
use crate::schedule::BlockPlacement;

/// Slabs of `slab_bytes`, or larger where one block needs it.
#[derive(Debug)]
pub struct Slabs {
    tier: Tier,
    slab_bytes: usize,
    slabs: Vec<Slab>,
    /// The error after which only a smaller slab of the host tier could be mapped.
    exhausted: Option<EngineError>,
}

#[derive(Debug)]
struct Slab {
    span: Span,
    free_list: FreeList,
    /// How far blocks have reached into this slab.
    reach_bytes: usize,
}

impl Slabs {
    /// Creates an address space without slabs.
    pub fn new(tier: Tier, slab_bytes: usize) -> Self {
        Slabs { tier, slab_bytes, slabs: Vec::new(), exhausted: None }
    }

    fn map(&mut self, engine: &dyn Engine, bytes: usize) -> Result<(), EngineError> {
        let span = engine.map(self.tier, bytes)?;
        self.slabs.push(Slab { span, free_list: FreeList::new(bytes), reach_bytes: 0 });
        Ok(())
    }

    /// Maps a slab for a block. Where the system has too little host memory left, the slab is as large a part of the usual size as can
    /// be had, and the last one: memory that is left then is for the rest of the process.
    fn map_for(&mut self, engine: &dyn Engine, bytes: usize, room: Room) -> Result<(), EngineError> {
        if let Some(error) = &self.exhausted {
            return Err(error.clone());
        }
        let mut slab_bytes = self.slab_bytes.max(bytes).min(room.unmapped_bytes);
        loop {
            match self.map(engine, slab_bytes) {
                Err(error) if self.tier == Tier::Host && error.is_exhausted() && slab_bytes > bytes => {
                    slab_bytes = (slab_bytes / 2 / DISK_ALIGN_BYTES * DISK_ALIGN_BYTES).max(bytes);
                    self.exhausted = Some(error);
                }
                mapped => return mapped,
            }
        }
    }

    fn all_reach_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.reach_bytes).sum()
    }
}

impl AddressSpace for Slabs {
    /// Allocates in the first slab that has room, or else in a new one.
    fn allocate(&mut self, engine: &dyn Engine, bytes: usize, room: Room) -> Result<Placed, EngineError> {
        for (index, slab) in self.slabs.iter_mut().enumerate() {
            if let Some((offset, pending)) = slab.free_list.allocate(bytes) {
                return Ok(Some((Block { slab: index as u32, offset, bytes }, pending)));
            }
        }
        if bytes > room.unmapped_bytes {
            return Ok(None);
        }
        self.map_for(engine, bytes, room)?;
        let index = self.slabs.len() - 1;
        let placed = self.slabs[index].free_list.allocate(bytes);
        let (offset, pending) = placed.expect("a fresh slab holds what it was mapped for");
        Ok(Some((Block { slab: index as u32, offset, bytes }, pending)))
    }

    /// Allocates at the end of the last slab, so that other blocks lie as they would without this one.
    fn allocate_last(
        &mut self,
        engine: &dyn Engine,
        bytes: usize,
        room: Room,
    ) -> Result<Placed, EngineError> {
        if self.slabs.is_empty() && bytes <= room.unmapped_bytes {
            self.map_for(engine, bytes, room)?;
        }
        let Some(slab) = self.slabs.last_mut() else { return Ok(None) };
        let placed = slab.free_list.allocate_last(bytes);
        let index = self.slabs.len() as u32 - 1;
        Ok(placed.map(|(offset, pending)| (Block { slab: index, offset, bytes }, pending)))
    }

    /// Allocates in the first slab, which is mapped now if there is none yet.
    fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        placement: &BlockPlacement,
        bytes: usize,
        room: Room,
    ) -> Result<Placed, EngineError> {
        let &BlockPlacement::At(offset) = placement else { return Ok(None) };
        if self.slabs.is_empty() {
            self.map(engine, self.slab_bytes.min(room.unmapped_bytes))?;
        }
        let free_list = &mut self.slabs[0].free_list;
        let is_free = free_list.is_free(offset, bytes);
        Ok(is_free.then(|| (Block { slab: 0, offset, bytes }, free_list.take(offset, bytes))))
    }

    fn free(&mut self, block: Block, pending: PendingWork) {
        self.slabs[block.slab as usize].free_list.free(block.offset, block.bytes, pending);
    }

    fn span(&self, block: Block, bytes: usize) -> Span {
        self.slabs[block.slab as usize].span.slice(block.offset, bytes)
    }

    fn reach_bytes(&mut self, block: Option<Block>) -> usize {
        let Some(block) = block else {
            self.slabs.iter_mut().for_each(|slab| slab.reach_bytes = slab.free_list.reach_bytes());
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

    /// Unmaps all slabs, or none while one of them is in use.
    fn release(&mut self, engine: &dyn Engine) {
        if self.slabs.iter().all(|slab| slab.free_list.reach_bytes() == 0) {
            self.slabs.drain(..).for_each(|slab| engine.unmap(slab.span));
            self.exhausted = None;
        }
    }

    fn reserved_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.span.bytes).sum()
    }

    fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        self.slabs.first().map_or(Vec::new(), |slab| slab.free_list.free_within(offset, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sim::{SimEngine, profiles};

    #[test]
    #[cfg_attr(miri, ignore = "the simulation asks the system for its memory")]
    fn a_block_that_no_slab_may_hold_has_no_room() {
        const LIMIT_BYTES: usize = 1 << 20;
        let engine = SimEngine::new(&profiles()[0]);
        let mut slabs = Slabs::new(Tier::Host, LIMIT_BYTES / 4);
        let room = |slabs: &Slabs| {
            let unmapped_bytes = LIMIT_BYTES - slabs.reserved_bytes();
            Room { unmapped_bytes, free_bytes: unmapped_bytes }
        };
        for bytes in [LIMIT_BYTES + DISK_ALIGN_BYTES, 1 << 48, usize::MAX - 255] {
            let free = room(&slabs);
            assert_eq!(slabs.allocate(&engine, bytes, free).unwrap(), None);
            assert_eq!(slabs.allocate_last(&engine, bytes, free).unwrap(), None);
        }
        assert_eq!(slabs.reserved_bytes(), 0, "nothing is mapped for them");
        let all = room(&slabs);
        assert!(slabs.allocate(&engine, LIMIT_BYTES, all).unwrap().is_some());
        let none = room(&slabs);
        assert_eq!(slabs.allocate(&engine, DISK_ALIGN_BYTES, none).unwrap(), None);
        assert_eq!(slabs.allocate_last(&engine, usize::MAX - 255, none).unwrap(), None);
    }
}
