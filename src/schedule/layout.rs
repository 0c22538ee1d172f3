//! The placements in device memory of an iteration's blocks.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::interval::IntervalId;
use crate::engine::ALIGN_BYTES;

/// The placement of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockPlacement {
    /// So many bytes from the beginning of memory.
    At(usize),
    /// On whole pages, as ranges of neighbouring pages.
    On(Arc<[Range<u32>]>),
}

/// A block that every iteration takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBlock {
    /// The op of the schedule at which it is taken.
    pub op: u32,
    /// The size of the block.
    pub bytes: usize,
    /// Its placement.
    pub placement: BlockPlacement,
}

/// The placements of an iteration's blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The blocks in the order in which they are taken.
    pub blocks: Vec<PlannedBlock>,
    /// The storages that are in device memory when the iteration begins, by the interval that they are in, with their
    /// placements. Sorted by interval.
    pub residents: Vec<(IntervalId, BlockPlacement)>,
    /// The most bytes that blocks may take at once.
    pub limit_bytes: usize,
}

/// Whether memory can have so many bytes: two such numbers can be added.
fn is_possible(bytes: usize) -> bool {
    isize::try_from(bytes).is_ok()
}

impl BlockPlacement {
    /// Whether the pool could place a block so: at a multiple of its alignment that memory can have, or on pages of which none is
    /// named twice.
    fn is_sound(&self) -> bool {
        match self {
            BlockPlacement::At(offset) => offset.is_multiple_of(ALIGN_BYTES) && is_possible(*offset),
            BlockPlacement::On(pages) => {
                let mut pages: Vec<&Range<u32>> = pages.iter().collect();
                pages.sort_unstable_by_key(|run| run.start);
                pages.iter().all(|run| !run.is_empty())
                    && pages.is_sorted_by(|before, after| before.end <= after.start)
            }
        }
    }
}

impl Layout {
    /// Whether all placements are sound, and in the order in which they are looked up.
    pub(super) fn is_sound(&self) -> bool {
        let residents = self.residents.iter().map(|(_, placement)| placement);
        let mut placements = self.blocks.iter().map(|block| &block.placement).chain(residents);
        placements.all(BlockPlacement::is_sound)
            && self.blocks.iter().all(|block| block.bytes > 0 && is_possible(block.bytes))
            && self.blocks.iter().all(|block| block.bytes.is_multiple_of(ALIGN_BYTES))
            && self.blocks.is_sorted_by_key(|block| block.op)
            && self.residents.is_sorted_by(|(before, _), (after, _)| before < after)
    }
}
