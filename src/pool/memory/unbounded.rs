//! Unbounded addresses, for trials of plans.
//!
//! The bytes are bounded and the addresses are not, so free memory is never fragmented. The planner finds placements for the
//! blocks afterwards, when it knows how long each of them lives.

use std::collections::VecDeque;

use super::address_space::{AddressSpace, Placed, Room};
use super::allocation_trace::AllocationTrace;
use super::block::Block;
use crate::engine::{Engine, EngineError, Span, Tier, in_memory};
use crate::pool::submit::PendingWork;
use crate::schedule::BlockPlacement;

/// A bounded number of bytes at addresses of which none is used twice.
#[derive(Debug)]
pub struct UnboundedAddresses {
    tier: Tier,
    used_bytes: usize,
    /// The page size. A block that is no smaller takes whole pages.
    page_bytes: Option<usize>,
    /// Whether blocks take whole pages now.
    takes_pages: bool,
    /// The next address.
    next: usize,
    /// The bytes that no block has used so far.
    fresh_bytes: usize,
    /// The bytes that were freed, in that order, with the pending work on them.
    freed: VecDeque<(usize, PendingWork)>,
    allocation_trace: AllocationTrace,
}

impl UnboundedAddresses {
    /// Creates an empty space of `limit_bytes`.
    pub fn new(tier: Tier, limit_bytes: usize, page_bytes: Option<usize>) -> Self {
        UnboundedAddresses {
            tier,
            used_bytes: 0,
            page_bytes,
            takes_pages: true,
            next: 0,
            fresh_bytes: limit_bytes,
            freed: VecDeque::new(),
            allocation_trace: AllocationTrace::default(),
        }
    }

    /// The bytes that a block of this size takes.
    fn bytes_in_memory(&self, bytes: usize) -> usize {
        in_memory(bytes, self.page_bytes.filter(|_| self.takes_pages))
    }

    /// Takes bytes that are free and returns their address, with the work to wait for. The block uses fresh bytes first, and
    /// then those that were freed the longest ago.
    fn take(&mut self, asked_bytes: usize) -> (usize, PendingWork) {
        let bytes = self.bytes_in_memory(asked_bytes);
        let fresh_bytes = bytes.min(self.fresh_bytes);
        self.fresh_bytes -= fresh_bytes;
        let (mut missing_bytes, mut pending) = (bytes - fresh_bytes, PendingWork::default());
        while missing_bytes > 0 {
            let (free_bytes, on_it) = self.freed.front_mut().expect("unused bytes are fresh or freed");
            let taken_bytes = missing_bytes.min(*free_bytes);
            pending = pending.and(*on_it);
            (*free_bytes, missing_bytes) = (*free_bytes - taken_bytes, missing_bytes - taken_bytes);
            if *free_bytes == 0 {
                self.freed.pop_front();
            }
        }
        let offset = self.next;
        self.next += bytes;
        self.allocation_trace.took(offset, asked_bytes, pending);
        (offset, pending)
    }

    fn give(&mut self, offset: usize, bytes: usize, pending: PendingWork) {
        self.allocation_trace.freed(offset, pending);
        self.freed.push_back((bytes, pending));
    }
}

impl AddressSpace for UnboundedAddresses {
    fn allocate(&mut self, _: &dyn Engine, bytes: usize, room: Room) -> Result<Placed, EngineError> {
        let bytes_in_memory = self.bytes_in_memory(bytes);
        Ok((bytes_in_memory <= room.free_bytes).then(|| {
            let (offset, pending) = self.take(bytes);
            self.used_bytes += bytes_in_memory;
            (Block { slab: 0, offset, bytes: bytes_in_memory }, pending)
        }))
    }

    /// Always `None`, since addresses cannot be chosen.
    fn allocate_at(
        &mut self,
        _: &dyn Engine,
        _: &BlockPlacement,
        _: usize,
        _: Room,
    ) -> Result<Placed, EngineError> {
        Ok(None)
    }

    fn free(&mut self, block: Block, pending: PendingWork) {
        self.used_bytes -= block.bytes;
        self.give(block.offset, block.bytes, pending);
    }

    fn span(&self, block: Block, bytes: usize) -> Span {
        Span { tier: self.tier, address: block.offset as u64, bytes }
    }

    /// The bytes in use, since no bytes lie unused between blocks.
    fn reach_bytes(&mut self, _: Option<Block>) -> usize {
        self.used_bytes
    }

    fn release(&mut self, _: &dyn Engine) {}

    fn begin_op(&mut self, op: u32) {
        self.allocation_trace.begin_op(op);
        self.takes_pages = true;
    }

    fn depart(&mut self) {
        self.takes_pages = false;
    }

    fn expect_copy(&mut self) {
        self.allocation_trace.expect_copy();
    }

    fn allocation_trace(&self) -> Option<&AllocationTrace> {
        Some(&self.allocation_trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Lane, Mark};

    #[test]
    fn a_block_of_a_page_or_more_takes_whole_pages_until_a_departure() {
        let mut unbounded = UnboundedAddresses::new(Tier::Device, 4096, Some(1024));
        assert_eq!([768, 1024, 1280].map(|bytes| unbounded.bytes_in_memory(bytes)), [768, 1024, 2048]);
        assert_eq!([1280, 256].map(|bytes| unbounded.take(bytes).0), [0, 2048]);
        assert_eq!(
            unbounded.allocation_trace.blocks()[0].bytes,
            1280,
            "the trace has the bytes that were asked for"
        );
        unbounded.takes_pages = false;
        assert_eq!(unbounded.bytes_in_memory(1280), 1280);
    }

    #[test]
    fn bytes_freed_first_are_used_first() {
        let work = |sequence| PendingWork::default().with(Mark { lane: Lane::Offload, sequence });
        let mut unbounded = UnboundedAddresses::new(Tier::Device, 1024, None);
        assert_eq!(unbounded.take(512), (0, PendingWork::default()));
        assert_eq!(unbounded.take(512), (512, PendingWork::default()));
        unbounded.give(512, 512, work(3));
        unbounded.give(0, 512, work(5));
        assert_eq!(unbounded.take(256), (1024, work(3)));
        assert_eq!(unbounded.take(512), (1280, work(5)));
        assert_eq!(unbounded.take(256), (1792, work(5)));
    }
}
