use bytemuck::{Pod, Zeroable};

use crate::op::{Layout, MAX_RANK};

/// The most operands one kernel steps through.
pub const MAX_OPERANDS: usize = 3;

/// An iteration space as kernels know it (`Space` in `views.cuh`): dimensions innermost first, one row of steps per
/// operand. Never of rank 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Space {
    pub count: u64,
    pub rank: u64,
    pub sizes: [u64; MAX_RANK],
    pub strides: [[i64; MAX_RANK]; MAX_OPERANDS],
}

/// The same for any number of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceOf<const OPERANDS: usize> {
    pub count: u64,
    pub rank: u64,
    pub sizes: [u64; MAX_RANK],
    pub strides: [[i64; MAX_RANK]; OPERANDS],
}

/// One dimension: its size and each operand's step along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim<const OPERANDS: usize = MAX_OPERANDS> {
    pub size: usize,
    pub steps: [isize; OPERANDS],
}

impl<const OPERANDS: usize> Dim<OPERANDS> {
    /// Dimension `axis` of views of equal shape.
    pub fn of(layouts: &[&Layout], axis: usize) -> Self {
        let mut steps = [0; OPERANDS];
        for (step, layout) in steps.iter_mut().zip(layouts) {
            *step = layout.strides()[axis];
        }
        Dim { size: layouts[0].shape()[axis], steps }
    }
}

impl Space {
    /// The space of views of equal shape.
    pub fn of(layouts: &[&Layout]) -> Self {
        let rank = layouts[0].shape().rank();
        Space::new((0..rank).map(|axis| Dim::of(layouts, axis)))
    }

    /// The space of these dimensions, outermost first, as [`SpaceOf::new`].
    pub fn new(dims: impl DoubleEndedIterator<Item = Dim>) -> Self {
        let SpaceOf { count, rank, sizes, strides } = SpaceOf::new(dims);
        Space { count, rank, sizes, strides }
    }
}

impl<const OPERANDS: usize> SpaceOf<OPERANDS> {
    /// The space of these dimensions, outermost first. Those of size one are dropped and neighbours that every operand
    /// steps through evenly become one: the order of the elements stays.
    pub fn new(dims: impl DoubleEndedIterator<Item = Dim<OPERANDS>>) -> Self {
        let (sizes, strides) = ([0; MAX_RANK], [[0; MAX_RANK]; OPERANDS]);
        let mut space = SpaceOf { count: 1, rank: 0, sizes, strides };
        for dim in dims.rev() {
            space.count *= dim.size as u64;
            if dim.size != 1 && !space.merge(&dim) {
                let axis = space.rank as usize;
                space.rank += 1;
                space.sizes[axis] = dim.size as u64;
                for (row, step) in space.strides.iter_mut().zip(dim.steps) {
                    row[axis] = step as i64;
                }
            }
        }
        if space.rank == 0 {
            (space.rank, space.sizes[0]) = (1, 1);
        }
        space
    }

    /// Makes `outer` part of the outermost dimension, if all operands step evenly from one to the other.
    fn merge(&mut self, outer: &Dim<OPERANDS>) -> bool {
        let Some(axis) = (self.rank as usize).checked_sub(1) else {
            return false;
        };
        let even = |row: &[i64; MAX_RANK], step: isize| row[axis] * self.sizes[axis] as i64 == step as i64;
        let merges = (self.strides.iter().zip(outer.steps)).all(|(row, step)| even(row, step));
        if merges {
            self.sizes[axis] *= outer.size as u64;
        }
        merges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Shape;

    #[test]
    fn contiguous_views_become_one_dimension() {
        let layout = Layout::contiguous(Shape::new(&[2, 1, 3, 4]));
        let space = Space::of(&[&layout, &layout]);
        assert_eq!((space.count, space.rank, space.sizes[0]), (24, 1, 24));
        assert_eq!((space.strides[0][0], space.strides[1][0]), (1, 1));
    }

    #[test]
    fn a_channel_broadcast_becomes_three_dimensions() {
        let shape = Shape::new(&[2, 3, 4, 5]);
        let channels = Layout::contiguous(Shape::new(&[1, 3, 1, 1])).expand(shape);
        let space = Space::of(&[&Layout::contiguous(shape), &channels]);
        assert_eq!(space.sizes[..space.rank as usize], [20, 3, 2]);
        assert_eq!(space.strides[1][..3], [0, 1, 0]);
    }

    #[test]
    fn rank_zero_and_empty_spaces() {
        let space = Space::of(&[&Layout::contiguous(Shape::new(&[]))]);
        assert_eq!((space.count, space.rank, space.sizes[0]), (1, 1, 1));
        assert_eq!(Space::of(&[&Layout::contiguous(Shape::new(&[3, 0]))]).count, 0);
    }
}
