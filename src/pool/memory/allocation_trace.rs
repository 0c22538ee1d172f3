//! The allocation trace: which blocks a trial took and freed, in order. The planner makes layouts from it.

use hashbrown::HashMap;

use crate::pool::submit::PendingWork;

/// A block that was taken. Its times count the blocks that were taken or freed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBlock {
    /// The op of the schedule that the program was at.
    pub op: u32,
    pub bytes: usize,
    /// When it was taken.
    pub from: u32,
    /// When it was freed, if it was.
    pub until: Option<u32>,
    /// The work that still touched it when it was freed.
    pub pending_when_freed: PendingWork,
    /// The work that still touched it when it was taken, if it is for a copy from the host, which waits for that.
    pub pending_when_taken: Option<PendingWork>,
}

/// The blocks that were taken and freed.
#[derive(Debug, Default)]
pub struct AllocationTrace {
    op: u32,
    now: u32,
    blocks: Vec<TakenBlock>,
    /// The indices of the blocks in use, by address. No address is used twice.
    in_use: HashMap<usize, usize>,
    /// Whether the next block is for a copy from the host.
    is_fetched: bool,
}

impl AllocationTrace {
    /// Notes that the program is at this op of the schedule.
    pub fn begin_op(&mut self, op: u32) {
        (self.op, self.is_fetched) = (op, false);
    }

    /// Announces that the next block is for a copy from the host.
    pub fn expect_copy(&mut self) {
        self.is_fetched = true;
    }

    /// Notes that a block was taken, which `pending` still touches.
    pub fn took(&mut self, offset: usize, bytes: usize, pending: PendingWork) {
        self.in_use.insert(offset, self.blocks.len());
        let pending_when_taken = std::mem::take(&mut self.is_fetched).then_some(pending);
        self.blocks.push(TakenBlock {
            op: self.op,
            bytes,
            from: self.now,
            until: None,
            pending_when_freed: PendingWork::default(),
            pending_when_taken,
        });
        self.now += 1;
    }

    /// Notes that a block was freed, which `pending` still touches.
    pub fn freed(&mut self, offset: usize, pending: PendingWork) {
        let index = self.in_use.remove(&offset).expect("a freed block was taken");
        let block = &mut self.blocks[index];
        (block.until, block.pending_when_freed) = (Some(self.now), pending);
        self.now += 1;
    }

    /// How many blocks were taken or freed so far.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// All blocks, in the order in which they were taken.
    pub fn blocks(&self) -> &[TakenBlock] {
        &self.blocks
    }

    /// The index of the block in use at an address.
    pub fn at(&self, offset: usize) -> Option<usize> {
        self.in_use.get(&offset).copied()
    }
}
