//! Where in device memory a plan has each block of an iteration.

use std::ops::Range;
use std::sync::Arc;

use super::interval::IntervalId;

/// Where a block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// So many bytes from the beginning of memory.
    At(usize),
    /// On whole pages, joined where they are neighbours.
    On(Arc<[Range<u32>]>),
}

/// A block that is taken in every iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedBlock {
    /// The op of the schedule that the program is at.
    pub op: u32,
    /// Its size.
    pub bytes: usize,
    /// Where it is.
    pub spot: Spot,
}

/// Where the blocks of an iteration are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// In the order in which they are taken.
    pub blocks: Vec<PlannedBlock>,
    /// What is in device memory when the iteration begins: the storage in this interval, and where. By interval.
    pub residents: Vec<(IntervalId, Spot)>,
    /// The most bytes in blocks at once.
    pub limit_bytes: usize,
}
