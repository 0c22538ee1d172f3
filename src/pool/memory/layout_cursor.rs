//! Which of an op's planned blocks comes next.

use std::sync::Arc;

use crate::schedule::{BlockPlacement, IntervalId, Layout};

/// The position in a layout: the blocks of the current op, and how many of them are taken.
///
/// The position is set anew at every op. So an op that takes other blocks than planned does not mislead the next one.
#[derive(Debug, Default)]
pub struct LayoutCursor {
    layout: Option<Arc<Layout>>,
    /// The index of the op's first block.
    begin: usize,
    /// The index of the block that is expected next.
    next: usize,
    /// The index after the op's last block.
    end: usize,
    /// The placement for the next block if it is not among the op's planned blocks.
    resident_placement: Option<BlockPlacement>,
}

impl LayoutCursor {
    /// Moves to the blocks of an op. Without a layout, no block is planned.
    pub fn begin_op(&mut self, layout: Option<&Arc<Layout>>, op: u32) {
        let Some(layout) = layout else { return *self = LayoutCursor::default() };
        let begin = layout.blocks.partition_point(|block| block.op < op);
        let count = layout.blocks[begin..].partition_point(|block| block.op == op);
        let (layout, end) = (Some(layout.clone()), begin + count);
        *self = LayoutCursor { layout, begin, next: begin, end, resident_placement: None };
    }

    /// The most bytes that the layout has in blocks at once.
    pub fn limit_bytes(&self) -> Option<usize> {
        Some(self.layout.as_ref()?.limit_bytes)
    }

    /// Announces that the next block is for a storage in this interval. If the op has no planned block for it, the storage goes
    /// where the layout has it when an iteration begins.
    pub fn expect(&mut self, interval: Option<IntervalId>) {
        self.resident_placement = self.layout.as_ref().zip(interval).and_then(|(layout, interval)| {
            let found = layout.residents.binary_search_by_key(&interval, |&(interval, _)| interval);
            found.ok().map(|index| layout.residents[index].1.clone())
        });
    }

    /// The planned block for a request of this size. If the next planned block has another size, the op departs from the plan or
    /// the plan has just become active. Then an announced storage goes to its own placement, and any other request takes any
    /// block of the op that has its size.
    pub fn next(&self, bytes: usize) -> Option<Planned> {
        let layout = self.layout.as_ref()?;
        let has_size = |index: &usize| layout.blocks[*index].bytes == bytes;
        let planned =
            |index| Planned { index: Some(index), placement: layout.blocks[index].placement.clone() };
        let next = Some(self.next).filter(|&next| next < self.end && has_size(&next));
        let resident = || self.resident_placement.clone().map(|placement| Planned { index: None, placement });
        let other = || (self.next..self.end).chain(self.begin..self.next).find(has_size).map(planned);
        next.map(planned).or_else(resident).or_else(other)
    }

    /// Records that the planned block was taken, at its placement or elsewhere.
    pub fn took(&mut self, planned: &Planned) {
        self.next = planned.index.map_or(self.next, |index| self.next.max(index + 1));
        self.resident_placement = None;
    }
}

/// A planned block.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its index in the layout; none for a storage that the iteration begins with.
    index: Option<usize>,
    pub placement: BlockPlacement,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::PlannedBlock;

    #[test]
    fn an_op_that_departs_takes_planned_blocks_of_its_sizes_and_misleads_no_other_op() {
        let block = |op, bytes, offset| PlannedBlock { op, bytes, placement: BlockPlacement::At(offset) };
        let blocks = vec![block(0, 256, 0), block(2, 256, 512), block(2, 512, 1024), block(2, 256, 2048)];
        let residents = vec![(IntervalId(5), BlockPlacement::At(3072))];
        let layout = Arc::new(Layout { blocks, residents, limit_bytes: 4096 });
        let mut cursor = LayoutCursor::default();
        let take = |cursor: &mut LayoutCursor, bytes| {
            let planned = cursor.next(bytes);
            planned.iter().for_each(|planned| cursor.took(planned));
            planned.map(|planned| match planned.placement {
                BlockPlacement::At(offset) => offset,
                BlockPlacement::On(_) => unreachable!("all placements are offsets"),
            })
        };
        assert_eq!((cursor.limit_bytes(), take(&mut cursor, 256)), (None, None));
        cursor.begin_op(Some(&layout), 2);
        assert_eq!([256, 256, 128].map(|bytes| take(&mut cursor, bytes)), [Some(512), Some(2048), None]);
        assert_eq!(take(&mut cursor, 512), Some(1024), "it comes later than planned");
        cursor.begin_op(Some(&layout), 1);
        assert_eq!((cursor.limit_bytes(), take(&mut cursor, 256)), (Some(4096), None));
        cursor.begin_op(Some(&layout), 0);
        assert_eq!(take(&mut cursor, 256), Some(0));
        cursor.begin_op(Some(&layout), 1);
        cursor.expect(Some(IntervalId(5)));
        assert_eq!([256, 256].map(|bytes| take(&mut cursor, bytes)), [Some(3072), None]);
        cursor.expect(Some(IntervalId(4)));
        assert_eq!(take(&mut cursor, 256), None);
        cursor.begin_op(None, 0);
        assert_eq!(take(&mut cursor, 256), None);
    }
}
