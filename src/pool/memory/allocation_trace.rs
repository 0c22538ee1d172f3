//! Notes of which blocks are taken, and when, for layouts to be made of.

use hashbrown::HashMap;

use crate::pool::submit::Pending;

/// A block that was taken. Time is counted in blocks taken and freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBlock {
    /// The op of the schedule that the program was at.
    pub op: u32,
    pub bytes: usize,
    pub from: u32,
    /// Nothing if it is not free yet.
    pub until: Option<u32>,
    /// The work on it when it was freed.
    pub left: Pending,
    /// It was for a copy from the host, and this is the work on it that the copy waited for.
    pub found: Option<Pending>,
}

/// Which blocks are taken, and when.
#[derive(Debug, Default)]
pub struct Takings {
    op: u32,
    now: u32,
    blocks: Vec<TakenBlock>,
    /// By address, those that are not free: none is used twice.
    in_use: HashMap<usize, usize>,
    /// The next is for a copy from the host.
    is_fetched: bool,
}

impl Takings {
    pub fn begin_op(&mut self, op: u32) {
        (self.op, self.is_fetched) = (op, false);
    }

    /// The next is for a copy from the host.
    pub fn expect_copy(&mut self) {
        self.is_fetched = true;
    }

    /// `found`: the work on it.
    pub fn took(&mut self, offset: usize, bytes: usize, found: Pending) {
        self.in_use.insert(offset, self.blocks.len());
        let (op, from, left) = (self.op, self.now, Pending::default());
        let found = std::mem::take(&mut self.is_fetched).then_some(found);
        self.blocks.push(TakenBlock { op, bytes, from, until: None, left, found });
        self.now += 1;
    }

    pub fn freed(&mut self, offset: usize, left: Pending) {
        let index = self.in_use.remove(&offset).expect("what is freed was taken");
        let block = &mut self.blocks[index];
        (block.until, block.left) = (Some(self.now), left);
        self.now += 1;
    }

    /// The time.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// All blocks, in the order in which they were taken.
    pub fn blocks(&self) -> &[TakenBlock] {
        &self.blocks
    }

    /// Which of the blocks is at an address.
    pub fn at(&self, offset: usize) -> Option<usize> {
        self.in_use.get(&offset).copied()
    }
}
