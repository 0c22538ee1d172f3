//! Which of a plan's addresses comes next.

use std::sync::Arc;

use crate::schedule::{BlockPlacement, IntervalId, Layout};

/// A place in a layout: the blocks that the op under way has still to take.
///
/// It begins anew with every op, so that an op that takes other blocks than planned confuses no other.
#[derive(Debug, Default)]
pub struct Guide {
    layout: Option<Arc<Layout>>,
    begin: usize,
    next: usize,
    end: usize,
    /// Where the next block is to be if it is not planned.
    otherwise: Option<BlockPlacement>,
}

impl Guide {
    /// An op of a schedule begins, or one that none knows.
    pub fn begin_op(&mut self, layout: Option<&Arc<Layout>>, op: u32) {
        let Some(layout) = layout else { return *self = Guide::default() };
        let begin = layout.blocks.partition_point(|block| block.op < op);
        let count = layout.blocks[begin..].partition_point(|block| block.op == op);
        let (layout, end) = (Some(layout.clone()), begin + count);
        *self = Guide { layout, begin, next: begin, end, otherwise: None };
    }

    /// The most bytes in blocks that the plan has at once.
    pub fn limit_bytes(&self) -> Option<usize> {
        Some(self.layout.as_ref()?.limit_bytes)
    }

    /// A block for what an iteration begins with comes: where the plan has it then, it is to be, unless a block is planned.
    pub fn expect(&mut self, interval: Option<IntervalId>) {
        self.otherwise = self.layout.as_ref().zip(interval).and_then(|(layout, interval)| {
            let found = layout.residents.binary_search_by_key(&interval, |&(interval, _)| interval);
            found.ok().map(|index| layout.residents[index].1.clone())
        });
    }

    /// Where a block of this size is to be, if that is planned. If it is not the next, an op departs, or begins to be followed:
    /// then a resident is where it is expected, and other blocks are any of the op's that are as large.
    pub fn next(&self, bytes: usize) -> Option<Planned> {
        let layout = self.layout.as_ref()?;
        let is_so_large = |index: &usize| layout.blocks[*index].bytes == bytes;
        let planned = |index| Planned { index: Some(index), spot: layout.blocks[index].spot.clone() };
        let next = Some(self.next).filter(|&next| next < self.end && is_so_large(&next));
        let resident = || self.otherwise.clone().map(|spot| Planned { index: None, spot });
        let other = || (self.next..self.end).chain(self.begin..self.next).find(is_so_large).map(planned);
        next.map(planned).or_else(resident).or_else(other)
    }

    /// The block was taken, there or elsewhere.
    pub fn took(&mut self, planned: &Planned) {
        self.next = planned.index.map_or(self.next, |index| self.next.max(index + 1));
        self.otherwise = None;
    }
}

/// A block of a layout.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Which; none if it is not of the op.
    index: Option<usize>,
    pub spot: BlockPlacement,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::PlannedBlock;

    #[test]
    fn an_op_that_departs_finds_the_next_of_its_size_and_confuses_no_other() {
        let block = |op, bytes, offset| PlannedBlock { op, bytes, spot: BlockPlacement::At(offset) };
        let blocks = vec![block(0, 256, 0), block(2, 256, 512), block(2, 512, 1024), block(2, 256, 2048)];
        let residents = vec![(IntervalId(5), BlockPlacement::At(3072))];
        let layout = Arc::new(Layout { blocks, residents, limit_bytes: 4096 });
        let mut guide = Guide::default();
        let take = |guide: &mut Guide, bytes| {
            let planned = guide.next(bytes);
            planned.iter().for_each(|planned| guide.took(planned));
            planned.map(|planned| match planned.spot {
                BlockPlacement::At(offset) => offset,
                BlockPlacement::On(_) => unreachable!("all spots are offsets"),
            })
        };
        assert_eq!((guide.limit_bytes(), take(&mut guide, 256)), (None, None));
        guide.begin_op(Some(&layout), 2);
        assert_eq!([256, 256, 128].map(|bytes| take(&mut guide, bytes)), [Some(512), Some(2048), None]);
        assert_eq!(take(&mut guide, 512), Some(1024), "it comes later than planned");
        guide.begin_op(Some(&layout), 1);
        assert_eq!((guide.limit_bytes(), take(&mut guide, 256)), (Some(4096), None));
        guide.begin_op(Some(&layout), 0);
        assert_eq!(take(&mut guide, 256), Some(0));
        guide.begin_op(Some(&layout), 1);
        guide.expect(Some(IntervalId(5)));
        assert_eq!([256, 256].map(|bytes| take(&mut guide, bytes)), [Some(3072), None]);
        guide.expect(Some(IntervalId(4)));
        assert_eq!(take(&mut guide, 256), None);
        guide.begin_op(None, 0);
        assert_eq!(take(&mut guide, 256), None);
    }
}
