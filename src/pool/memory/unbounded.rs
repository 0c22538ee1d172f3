//! Addresses without end, for plans: bytes are bounded, addresses are not, so that free memory is never in pieces. Where blocks
//! are to be is found afterwards, when it is known how long each is there.

use std::collections::VecDeque;

use super::address_space::{AddressSpace, Placed, Room};
use super::allocation_trace::Takings;
use super::block::Block;
use crate::engine::{Engine, EngineError, Span, Tier, in_memory};
use crate::pool::submit::Pending;
use crate::schedule::BlockPlacement;

/// Memory of so many bytes. No address is used twice.
#[derive(Debug)]
pub struct Endless {
    tier: Tier,
    used_bytes: usize,
    /// What is no smaller takes whole pages,
    page_bytes: Option<usize>,
    /// unless that is too much.
    takes_pages: bool,
    next: usize,
    /// What no block has used so far.
    fresh_bytes: usize,
    /// What blocks have used and left, in this order, and the work on it.
    freed: VecDeque<(usize, Pending)>,
    takings: Takings,
}

impl Endless {
    /// So much memory of a tier.
    pub fn new(tier: Tier, limit_bytes: usize, page_bytes: Option<usize>) -> Self {
        Endless {
            tier,
            used_bytes: 0,
            page_bytes,
            takes_pages: true,
            next: 0,
            fresh_bytes: limit_bytes,
            freed: VecDeque::new(),
            takings: Takings::default(),
        }
    }

    /// The bytes of memory that a block takes.
    fn bytes_in_memory(&self, bytes: usize) -> usize {
        in_memory(bytes, self.page_bytes.filter(|_| self.takes_pages))
    }

    /// An address for a block, of which there is room, and the work to wait for: as if it took what was left the longest ago.
    fn take(&mut self, asked_bytes: usize) -> (usize, Pending) {
        let bytes = self.bytes_in_memory(asked_bytes);
        let fresh_bytes = bytes.min(self.fresh_bytes);
        self.fresh_bytes -= fresh_bytes;
        let (mut missing_bytes, mut pending) = (bytes - fresh_bytes, Pending::default());
        while missing_bytes > 0 {
            let (free_bytes, on_it) = self.freed.front_mut().expect("what is not in use was left");
            let taken_bytes = missing_bytes.min(*free_bytes);
            pending = pending.and(*on_it);
            (*free_bytes, missing_bytes) = (*free_bytes - taken_bytes, missing_bytes - taken_bytes);
            if *free_bytes == 0 {
                self.freed.pop_front();
            }
        }
        let offset = self.next;
        self.next += bytes;
        self.takings.took(offset, asked_bytes, pending);
        (offset, pending)
    }

    fn give(&mut self, offset: usize, bytes: usize, pending: Pending) {
        self.takings.freed(offset, pending);
        self.freed.push_back((bytes, pending));
    }
}

impl AddressSpace for Endless {
    fn allocate(&mut self, _: &dyn Engine, bytes: usize, room: Room) -> Result<Placed, EngineError> {
        let bytes_in_memory = self.bytes_in_memory(bytes);
        Ok((bytes_in_memory <= room.free_bytes).then(|| {
            let (offset, pending) = self.take(bytes);
            self.used_bytes += bytes_in_memory;
            (Block { slab: 0, offset, bytes: bytes_in_memory }, pending)
        }))
    }

    /// No address can be chosen.
    fn allocate_at(
        &mut self,
        _: &dyn Engine,
        _: &BlockPlacement,
        _: usize,
        _: Room,
    ) -> Result<Placed, EngineError> {
        Ok(None)
    }

    fn free(&mut self, block: Block, pending: Pending) {
        self.used_bytes -= block.bytes;
        self.give(block.offset, block.bytes, pending);
    }

    fn span(&self, block: Block, bytes: usize) -> Span {
        Span { tier: self.tier, address: block.offset as u64, bytes }
    }

    /// As if nothing lay unused between blocks.
    fn reach_bytes(&mut self, _: Option<Block>) -> usize {
        self.used_bytes
    }

    fn release(&mut self, _: &dyn Engine) {}

    fn begin_op(&mut self, op: u32) {
        self.takings.begin_op(op);
        self.takes_pages = true;
    }

    fn depart(&mut self) {
        self.takes_pages = false;
    }

    fn expect_copy(&mut self) {
        self.takings.expect_copy();
    }

    fn allocation_trace(&self) -> Option<&Takings> {
        Some(&self.takings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Lane, Mark};

    #[test]
    fn what_is_no_smaller_than_a_page_takes_whole_ones_unless_that_is_too_much() {
        let mut endless = Endless::new(Tier::Device, 4096, Some(1024));
        assert_eq!([768, 1024, 1280].map(|bytes| endless.bytes_in_memory(bytes)), [768, 1024, 2048]);
        assert_eq!([1280, 256].map(|bytes| endless.take(bytes).0), [0, 2048]);
        assert_eq!(endless.takings.blocks()[0].bytes, 1280, "what was asked for is what is planned");
        endless.takes_pages = false;
        assert_eq!(endless.bytes_in_memory(1280), 1280);
    }

    #[test]
    fn what_was_left_first_is_used_first() {
        let work = |sequence| Pending::default().with(Mark { lane: Lane::Offload, sequence });
        let mut endless = Endless::new(Tier::Device, 1024, None);
        assert_eq!(endless.take(512), (0, Pending::default()));
        assert_eq!(endless.take(512), (512, Pending::default()));
        endless.give(512, 512, work(3));
        endless.give(0, 512, work(5));
        assert_eq!(endless.take(256), (1024, work(3)));
        assert_eq!(endless.take(512), (1280, work(5)));
        assert_eq!(endless.take(256), (1792, work(5)));
    }
}
