//! Addresses of a plan: where in device memory each block of an iteration is.

use super::IntervalId;

/// A block that is taken in every iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBlock {
    /// The op of the schedule that the program is at.
    pub op: u32,
    /// Its size.
    pub bytes: usize,
    /// Where it is.
    pub offset_bytes: usize,
}

/// Where the blocks of an iteration are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// In the order in which they are taken.
    pub blocks: Vec<PlannedBlock>,
    /// What is in device memory when the iteration begins: the storage in this interval, and where. By interval.
    pub residents: Vec<(IntervalId, usize)>,
    /// The most bytes in blocks at once.
    pub limit_bytes: usize,
}
