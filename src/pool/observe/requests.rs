//! The state of the request log, which is kept until a whole iteration can be planned.

use std::sync::Arc;
use std::time::Instant;

use crate::op::Tally;
use crate::pool::memory::block::Block;
use crate::pool::memory::tiers::Memory;
use crate::pool::remat::away::TierCopy;
use crate::pool::submit::PendingWork;
use crate::schedule::RequestLog;

/// The bytes of a count.
pub const WORD_BYTES: usize = size_of::<u32>();

/// The bytes of a block that counts share: as small as a block of the host tier can be where there is a disk.
pub const PAGE_BYTES: usize = 4096;

/// A tally: the number of the storage, what was counted, and where the count lies.
pub type Tallied = (u64, Tally, TierCopy);

/// The counts of a log, and the blocks of the host tier that they lie in.
#[derive(Debug, Default)]
pub struct Tallies {
    counts: Vec<Tallied>,
    /// Each with the work that uses it. Counts fill the last one.
    pages: Vec<(Block, PendingWork)>,
    /// Whether other bytes needed their place, and no more is counted.
    are_given_up: bool,
}

impl Tallies {
    pub fn counts(&self) -> &[Tallied] {
        &self.counts
    }

    /// Adds a block for the counts to come.
    pub fn add_page(&mut self, page: (Block, PendingWork)) {
        self.pages.push(page);
    }

    /// The place of the next count, if a block has room for it.
    pub fn next_word(&self) -> Option<TierCopy> {
        let filled = self.counts.len() * WORD_BYTES;
        let &(page, busy) = self.pages.get(filled / PAGE_BYTES)?;
        let block = page.part(filled % PAGE_BYTES, WORD_BYTES);
        Some(TierCopy::unwritten(block, busy))
    }

    /// Adds the count that was submitted for the next place.
    pub fn push(&mut self, number: u64, tally: Tally, copy: TierCopy) {
        let (_, busy) = self.pages.last_mut().expect("the count lies in a block");
        *busy = busy.and(copy.touched);
        self.counts.push((number, tally, copy));
    }

    /// The blocks that counts lie in.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.pages.iter().map(|&(block, _)| block)
    }

    /// Whether more may be counted.
    pub fn go_on(&self) -> bool {
        !self.are_given_up
    }

    /// Gives the blocks back, and counts no more. Returns `false` if there were none.
    pub fn give_up(&mut self, memory: &mut Memory) -> bool {
        let had_pages = !self.pages.is_empty();
        std::mem::replace(self, Tallies { are_given_up: true, ..Tallies::default() }).free(memory);
        had_pages
    }

    /// Gives the blocks back.
    pub fn free(self, memory: &mut Memory) {
        self.pages.into_iter().for_each(|(page, busy)| memory.host.free(page, busy));
    }
}

/// The request log, and whether one is wanted.
#[derive(Debug, Default)]
pub struct Requests {
    /// The requests since memory became short. The planner takes them.
    pub log: Option<Box<RequestLog>>,
    /// Whether the pool plans iterations.
    pub plans_iterations: bool,
    /// Whether the next eviction starts a log, or a log is under way.
    pub wants_log: bool,
    /// The tallies of the log.
    pub tallies: Tallies,
    /// The planner holds a clone of this while it is at work.
    pub planning: Arc<()>,
    /// When the planner last began.
    pub planning_begun: Option<Instant>,
    /// No iteration was recognized in a log of the maximum length.
    pub no_period_found: bool,
    /// Whether plans use measured times.
    pub uses_measured_times: bool,
}
