//! The placements in device memory of an iteration's blocks.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::interval::IntervalId;

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
