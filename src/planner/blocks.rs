//! The blocks that a trial took, and their placements.

use hashbrown::HashMap;

use super::lifetime::{Lifetime, peak_bytes};
use super::pages::{CopyTiming, PagedMemory, assign, in_use};
use super::smartpool::{PlacedBlocks, in_each_order, place};
use crate::pool::{AllocationTrace, PendingWork, TakenBlock};
use crate::schedule::{BlockPlacement, IntervalId, Layout, PlannedBlock};

/// The blocks of an iteration that repeats.
#[derive(Clone, Debug)]
pub struct IterationBlocks {
    /// The most bytes that blocks may take at once.
    pub limit_bytes: usize,
    period: u32,
    /// The blocks that are taken in the iteration, in order, and then those that always exist.
    lifetimes: Vec<Lifetime>,
    /// By block, the timing of its copies.
    copied: Vec<CopyTiming>,
    /// The ops at which the first of these blocks are taken.
    pub ops: Vec<u32>,
    /// The blocks that exist when the iteration begins, by interval.
    residents: Vec<(IntervalId, usize)>,
    /// Whether the iteration ended as it began.
    pub repeats: bool,
}

impl IterationBlocks {
    /// The blocks of a trial's last iteration. `limit_bytes` is the memory of the trial, `begins` the time when each iteration
    /// began, `residents` the blocks that exist now with their intervals, and `ready_at` tells when work is done.
    pub fn new(
        limit_bytes: usize,
        allocation_trace: &AllocationTrace,
        begins: &[u32],
        residents: Vec<(IntervalId, usize)>,
        ready_at: impl Fn(PendingWork) -> u32,
    ) -> IterationBlocks {
        let [.., before, begin] = *begins else { return IterationBlocks::none(limit_bytes) };
        let (all, period) = (allocation_trace.blocks(), allocation_trace.now() - begin);
        let first_of = |now: u32| all.partition_point(|block| block.from < now);
        let (first_before, first) = (first_of(before), first_of(begin));
        // A block that still exists when the next iteration begins is freed at the same time as the corresponding block of the
        // iteration before was in this one.
        let like: HashMap<(u32, usize), usize> =
            keys(&all[first_before..first]).zip(first_before..).collect();
        // When the block is free, and when its memory can be used.
        let freed = |block: &TakenBlock| {
            block.until.map(|until| (until, ready_at(block.pending_when_freed).max(until)))
        };
        let mut lifetimes = Vec::new();
        let mut copied = Vec::new();
        let mut places = HashMap::new();
        let mut moved = Vec::new();
        let mut begun =
            all[..first].iter().filter(|block| block.until.is_some_and(|until| until >= begin)).count();
        let mut repeats = true;
        for ((index, block), key) in (first..).zip(&all[first..]).zip(keys(&all[first..])) {
            let from = block.from - begin;
            places.insert(index, lifetimes.len());
            let (until, ready) = match freed(block) {
                Some((until, ready)) => (until - begin, ready - begin),
                None => {
                    let like = like.get(&key).map(|&like| all[like]).filter(|like| like.bytes == block.bytes);
                    let freed = like.and_then(|like| freed(&like)).filter(|&(until, _)| until >= begin);
                    repeats &= freed.is_some();
                    begun = begun.saturating_sub(1);
                    let (until, ready) =
                        freed.map_or((period, period), |(until, ready)| (until - begin, ready - begin));
                    if until > from {
                        moved.push((index, until, ready));
                        (period, period)
                    } else {
                        (until + period, ready + period)
                    }
                }
            };
            lifetimes.push(Lifetime { bytes: block.bytes, from, until });
            let lead = block
                .pending_when_taken
                .map_or(0, |work| block.from.saturating_sub(ready_at(work).max(begin)));
            copied.push(CopyTiming { ready, lead });
        }
        // While the corresponding block still exists, this one cannot take its address. It is moved there when the iteration is
        // over.
        let always = (0..first).filter(|&index| all[index].until.is_none());
        let always = always.map(|index| (index, period, period));
        for (index, until, ready) in moved.into_iter().chain(always) {
            places.insert(index, lifetimes.len());
            copied.push(CopyTiming { ready, lead: 0 });
            lifetimes.push(Lifetime { bytes: all[index].bytes, from: 0, until });
        }
        let resident = |(interval, index): (IntervalId, usize)| Some((interval, *places.get(&index)?));
        let mut residents: Vec<_> = residents.into_iter().filter_map(resident).collect();
        residents.sort_unstable_by_key(|&(interval, _)| interval);
        let ops = all[first..].iter().map(|block| block.op).collect();
        IterationBlocks {
            limit_bytes,
            period,
            lifetimes,
            copied,
            ops,
            residents,
            repeats: repeats && begun == 0,
        }
    }

    fn none(limit_bytes: usize) -> IterationBlocks {
        IterationBlocks {
            limit_bytes,
            period: 0,
            lifetimes: Vec::new(),
            copied: Vec::new(),
            ops: Vec::new(),
            residents: Vec::new(),
            repeats: true,
        }
    }

    /// A layout of the blocks, and the bytes that it reaches. The search ends at `enough_bytes`. With `page_bytes`, blocks of
    /// at least a page take whole pages.
    pub fn layout(
        &self,
        enough_bytes: usize,
        page_bytes: Option<usize>,
        steps_per_block: u64,
    ) -> (Layout, usize) {
        let (placements, footprint_bytes) = match page_bytes {
            Some(page_bytes) => self.on_pages(page_bytes, enough_bytes, steps_per_block),
            None => {
                let PlacedBlocks { offsets, footprint_bytes } =
                    self.placed(&self.lifetimes, enough_bytes, steps_per_block);
                (offsets.into_iter().map(BlockPlacement::At).collect(), footprint_bytes)
            }
        };
        let block = |(&op, index): (&u32, usize)| PlannedBlock {
            op,
            bytes: self.lifetimes[index].bytes,
            placement: placements[index].clone(),
        };
        let blocks = self.ops.iter().zip(0..).map(block).collect();
        let residents =
            self.residents.iter().map(|&(interval, index)| (interval, placements[index].clone())).collect();
        (Layout { blocks, residents, limit_bytes: self.limit_bytes }, footprint_bytes)
    }

    fn placed(&self, lifetimes: &[Lifetime], enough_bytes: usize, steps_per_block: u64) -> PlacedBlocks {
        place(lifetimes, self.period, enough_bytes, steps_per_block * lifetimes.len() as u64)
    }

    /// A block until others can use its memory without waiting for copies out of it, but at most until it is taken again.
    fn until_ready(&self, at: usize) -> Lifetime {
        let (block, ready) = (self.lifetimes[at], self.copied[at].ready);
        Lifetime { until: block.until.max(ready.min(block.from + self.period)), ..block }
    }

    /// Places the blocks smaller than a page at addresses, then assigns pages to the others.
    fn on_pages(
        &self,
        page_bytes: usize,
        enough_bytes: usize,
        steps_per_block: u64,
    ) -> (Vec<BlockPlacement>, usize) {
        let (large, small): (Vec<usize>, Vec<usize>) =
            (0..self.lifetimes.len()).partition(|&at| self.lifetimes[at].bytes >= page_bytes);
        let lifetimes = |which: &[usize]| which.iter().map(|&at| self.lifetimes[at]).collect::<Vec<_>>();
        let (small_lifetimes, large_lifetimes) = (lifetimes(&small), lifetimes(&large));
        let copied: Vec<CopyTiming> = large.iter().map(|&at| self.copied[at]).collect();
        let small_uses: Vec<Lifetime> = small.iter().map(|&at| self.until_ready(at)).collect();
        let assigned = |placed: PlacedBlocks| {
            let used = in_use(&small_uses, &placed.offsets, self.period, page_bytes);
            let pages = used.len().max(enough_bytes / page_bytes);
            let memory = PagedMemory { period: self.period, page_bytes, pages: pages as u32, used: &used };
            let (assigned, missing) = assign(&large_lifetimes, &copied, &memory);
            (pages + missing, placed, assigned)
        };
        let enough_small_bytes = peak_bytes(&small_lifetimes, self.period).next_multiple_of(page_bytes);
        let improved = self.placed(&small_lifetimes, enough_small_bytes, steps_per_block);
        let all = [improved].into_iter().chain(in_each_order(&small_lifetimes, self.period)).map(assigned);
        let (pages, placed, assigned) = all.min_by_key(|&(pages, ..)| pages).expect("there are several");
        let mut placements = vec![BlockPlacement::At(0); self.lifetimes.len()];
        for (&at, &offset) in small.iter().zip(&placed.offsets) {
            placements[at] = BlockPlacement::At(offset);
        }
        for (&at, pages) in large.iter().zip(assigned) {
            placements[at] = BlockPlacement::On(pages.into());
        }
        (placements, pages * page_bytes)
    }
}

/// A key for each block in the order in which they are taken: its op, and the number of earlier blocks at the same op.
fn keys(blocks: &[TakenBlock]) -> impl Iterator<Item = (u32, usize)> {
    let mut last = (u32::MAX, 0);
    blocks.iter().map(move |block| {
        last = if block.op == last.0 { (block.op, last.1 + 1) } else { (block.op, 0) };
        last
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_iteration_leaves_to_the_next_ends_as_that_of_the_one_before_did() {
        let mut allocation_trace = AllocationTrace::default();
        let mut begins = Vec::new();
        allocation_trace.begin_op(0);
        allocation_trace.took(0, 1024, PendingWork::default());
        for iteration in 1..=3 {
            begins.push(allocation_trace.now());
            allocation_trace.begin_op(0);
            allocation_trace.took(10_000 * iteration, 256, PendingWork::default());
            if iteration > 1 {
                allocation_trace.freed(10_000 * (iteration - 1) + 1, PendingWork::default());
            }
            allocation_trace.freed(10_000 * iteration, PendingWork::default());
            allocation_trace.begin_op(1);
            allocation_trace.took(10_000 * iteration + 1, 512, PendingWork::default());
        }
        let residents = vec![(IntervalId(7), 0), (IntervalId(8), 6)];
        let blocks = IterationBlocks::new(4096, &allocation_trace, &begins, residents, |_| 0);
        let lifetime = |bytes, from, until| Lifetime { bytes, from, until };
        assert_eq!(blocks.period, 4);
        assert_eq!(blocks.lifetimes, [lifetime(256, 0, 2), lifetime(512, 3, 5), lifetime(1024, 0, 4)]);
        let (layout, footprint_bytes) = blocks.layout(0, None, 20_000);
        assert_eq!((footprint_bytes, layout.limit_bytes), (1792, 4096));
        let taken: Vec<_> = layout.blocks.iter().map(|block| (block.op, block.bytes)).collect();
        assert_eq!(taken, [(0, 256), (1, 512)]);
        let intervals: Vec<_> = layout.residents.iter().map(|&(interval, _)| interval.0).collect();
        assert_eq!(intervals, [7, 8]);
    }

    #[test]
    fn what_an_iteration_frees_before_all_else_makes_room_for_its_like() {
        let mut allocation_trace = AllocationTrace::default();
        let mut begins = Vec::new();
        for iteration in 0..3 {
            begins.push(allocation_trace.now());
            allocation_trace.begin_op(0);
            if iteration > 0 {
                allocation_trace.freed(iteration - 1, PendingWork::default());
            }
            allocation_trace.took(iteration, 256, PendingWork::default());
        }
        let blocks = IterationBlocks::new(4096, &allocation_trace, &begins, vec![(IntervalId(7), 2)], |_| 0);
        assert!(blocks.repeats);
        assert_eq!(blocks.lifetimes, [Lifetime { bytes: 256, from: 1, until: 2 }]);
        let (layout, footprint_bytes) = blocks.layout(0, None, 20_000);
        assert_eq!(footprint_bytes, 256);
        assert_eq!(
            layout.residents,
            [(IntervalId(7), layout.blocks[0].placement.clone())],
            "it need not be moved"
        );
    }
}
