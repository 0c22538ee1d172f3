//! Whole pages for blocks with known lifetimes. If each page is mapped on its own, memory is never fragmented: any free pages
//! will do, so blocks fit whenever their bytes do. Pages differ only in when copies out of them are done.
//!
//! A block smaller than a page has an address of its own. It uses its pages for a part of the time, and they are free for other
//! blocks for the rest.
//!
//! Time is a circle: a block that an iteration leaves to the next has the same pages in both. The circle is cut where the
//! fewest pages are in use.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use arrayvec::ArrayVec;

use super::lifetime::Lifetime;

/// The timing of a block's copies.
#[derive(Clone, Copy, Debug)]
pub struct CopyTiming {
    /// When others can use its memory without waiting for copies out of it: when it is freed, or later.
    pub ready: u32,
    /// How long before the block is taken its memory has to be ready, since a copy into it can begin before its op.
    pub lead: u32,
}

/// Disjoint times in order, none beyond the period.
pub type Times = Vec<Range<u32>>;

/// The pages that blocks are assigned to.
#[derive(Clone, Copy, Debug)]
pub struct PagedMemory<'a> {
    pub period: u32,
    pub page_bytes: usize,
    /// The number of pages.
    pub pages: u32,
    /// When pages are already in use, by page. Pages beyond the last entry are free all the time.
    pub used: &'a [Times],
}

/// When each page is in use, if blocks are at these addresses.
pub fn in_use(blocks: &[Lifetime], offsets: &[usize], period: u32, page_bytes: usize) -> Vec<Times> {
    let mut pages: Vec<Times> = Vec::new();
    for (block, &offset) in blocks.iter().zip(offsets) {
        let (first, end) = (offset / page_bytes, (offset + block.bytes).div_ceil(page_bytes));
        pages.resize_with(pages.len().max(end), Vec::new);
        pages[first..end].iter_mut().for_each(|times| times.extend(times_of(block, period)));
    }
    for times in &mut pages {
        times.sort_unstable_by_key(|time| time.start);
        times.dedup_by(|next, time| {
            let joined = next.start <= time.end;
            if joined {
                time.end = time.end.max(next.end);
            }
            joined
        });
    }
    pages
}

/// When a block exists.
fn times_of(block: &Lifetime, period: u32) -> ArrayVec<Range<u32>, 2> {
    let rest = (block.until > period).then(|| 0..block.until - period);
    std::iter::once(block.from..block.until.min(period)).chain(rest).collect()
}

/// Pages for each block, as ranges of neighbours, and the number of missing pages. A block for which there are too few gets
/// fewer pages. `copied` has the timing of each block's copies.
pub fn assign(
    blocks: &[Lifetime],
    copied: &[CopyTiming],
    memory: &PagedMemory,
) -> (Vec<Vec<Range<u32>>>, usize) {
    let &PagedMemory { period, page_bytes, used, .. } = memory;
    let counts: Vec<usize> = blocks.iter().map(|block| block.bytes.div_ceil(page_bytes)).collect();
    let cut = quietest(blocks, copied, &counts, period);
    let (blocks, copied): (Vec<_>, Vec<_>) =
        blocks.iter().zip(copied).map(|(block, copied)| rotated(block, copied, cut, period)).unzip();
    let used: Vec<Times> = used.iter().map(|times| rotated_times(times, cut, period)).collect();
    let pages_of = sweep(&blocks, &copied, &counts, &PagedMemory { used: &used, ..*memory });
    let missing = pages_of.iter().zip(&counts).map(|(pages, count)| count - pages.len()).sum();
    (pages_of.into_iter().map(joined).collect(), missing)
}

fn joined(mut pages: Vec<u32>) -> Vec<Range<u32>> {
    pages.sort_unstable();
    pages.chunk_by(|one, next| one + 1 == *next).map(|run| run[0]..run[run.len() - 1] + 1).collect()
}

/// The time when the fewest pages are in use or being copied from, not counting blocks that always exist.
fn quietest(blocks: &[Lifetime], copied: &[CopyTiming], counts: &[usize], period: u32) -> u32 {
    let mut changes: Vec<(u32, i64)> = Vec::new();
    let mut in_use = 0;
    for ((block, copied), &count) in blocks.iter().zip(copied).zip(counts) {
        if copied.ready - block.from < period {
            let count = count as i64;
            in_use += if copied.ready > period { count } else { 0 };
            changes.extend([(copied.ready % period, -count), (block.from, count)]);
        }
    }
    changes.sort_unstable();
    let mut quietest = (in_use, 0);
    for (now, change) in changes {
        in_use += change;
        quietest = quietest.min((in_use, now));
    }
    quietest.1
}

/// A block on a circle that begins at `cut`.
fn rotated(block: &Lifetime, copied: &CopyTiming, cut: u32, period: u32) -> (Lifetime, CopyTiming) {
    let from = (block.from + period - cut) % period;
    let until = from + (block.until - block.from);
    let ready = until + (copied.ready - block.until);
    (Lifetime { from, until, ..*block }, CopyTiming { ready, ..*copied })
}

/// Times on a circle that begins at `cut`.
fn rotated_times(times: &Times, cut: u32, period: u32) -> Times {
    let parts = |time: &Range<u32>| {
        let before = time.start.min(cut)..time.end.min(cut);
        let after = time.start.max(cut)..time.end.max(cut);
        [after.start - cut..after.end - cut, before.start + period - cut..before.end + period - cut]
    };
    let mut rotated: Times = times.iter().flat_map(parts).filter(|time| !time.is_empty()).collect();
    rotated.sort_unstable_by_key(|time| time.start);
    rotated
}

/// A free page: until when it is free, when it is ready, and its number.
type Free = (u32, Reverse<u32>, u32);

/// Chooses free pages that stay free until a time. Of the pages that are ready in time it takes those that others need soonest,
/// and of these the last to be ready. Then it takes those of the others that are ready first.
fn chosen(free: &BTreeSet<Free>, until: u32, ready_by: u32, count: usize) -> Vec<Free> {
    let long_enough = || free.range((until, Reverse(u32::MAX), 0)..).copied();
    let mut chosen: Vec<Free> =
        long_enough().filter(|&(_, Reverse(ready), _)| ready <= ready_by).take(count).collect();
    if chosen.len() < count {
        let mut later: Vec<Free> = long_enough().filter(|&(_, Reverse(ready), _)| ready > ready_by).collect();
        later.sort_unstable_by_key(|&(until, Reverse(ready), page)| (ready, until, page));
        later.truncate(count - chosen.len());
        chosen.extend(later);
    }
    chosen
}

/// Assigns pages to blocks in the order in which they are taken. A block across the end of the period takes pages that small
/// blocks never use.
fn sweep(
    blocks: &[Lifetime],
    copied: &[CopyTiming],
    counts: &[usize],
    memory: &PagedMemory,
) -> Vec<Vec<u32>> {
    let &PagedMemory { period, pages, used, .. } = memory;
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    // Blocks that exist both when the iteration begins and when it ends come first, as a whole.
    order.sort_by_key(|&at| (blocks[at].until <= period, blocks[at].from));
    let mut pages_of: Vec<Vec<u32>> = vec![Vec::new(); blocks.len()];
    let is_ever_used = |page: u32| used.get(page as usize).is_some_and(|times| !times.is_empty());
    let mut free: BTreeSet<Free> =
        (0..pages).filter(|&page| !is_ever_used(page)).map(|page| (period, Reverse(0), page)).collect();
    // The times when the other pages are free. The next is last.
    let mut free_times: Vec<(Range<u32>, u32)> = (0..pages)
        .zip(used)
        .flat_map(|(page, times)| {
            free_times(times, period)
                .filter(|_| is_ever_used(page))
                .map(move |free_time| (free_time, page))
                .collect::<Vec<_>>()
        })
        .collect();
    free_times.sort_unstable_by_key(|(free_time, page)| Reverse((free_time.start, *page)));
    // By page, the end of the free time that it is in.
    let mut free_until = vec![period; pages as usize];
    let mut ends: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    for at in order {
        let Lifetime { from, until, .. } = blocks[at];
        let is_over = until > period;
        let (now, until) = if is_over { (0, until - period) } else { (from, until) };
        while let Some(&Reverse((end, before))) = ends.peek()
            && end <= now
        {
            ends.pop();
            let ready = copied[before].ready - (blocks[before].until - end);
            free.extend(
                pages_of[before].iter().map(|&page| (free_until[page as usize], Reverse(ready), page)),
            );
        }
        while let Some((free_time, page)) =
            free_times.pop_if(|(free_time, _)| !is_over && free_time.start <= now)
        {
            free_until[page as usize] = free_time.end;
            free.insert((free_time.end, Reverse(free_time.start), page));
        }
        let lead = copied[at].lead;
        for page in chosen(&free, until, now.saturating_sub(lead), counts[at]) {
            assert!(free.remove(&page), "what is taken was free");
            pages_of[at].push(page.2);
            if is_over {
                // Its pages are ready in time for the next iteration.
                free_until[page.2 as usize] = from - lead.min(from - until);
            }
        }
        ends.push(Reverse((until, at)));
    }
    pages_of
}

/// The times between these.
fn free_times(times: &Times, period: u32) -> impl Iterator<Item = Range<u32>> {
    let begins = std::iter::once(0).chain(times.iter().map(|time| time.end));
    let ends = times.iter().map(|time| time.start).chain([period]);
    begins.zip(ends).map(|(begin, end)| begin..end).filter(|free_time| !free_time.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: usize = 1024;
    const PERIOD: u32 = 24;

    fn block() -> impl Strategy<Value = Lifetime> {
        (1..4 * PAGE, 0..PERIOD, 1..=PERIOD).prop_map(|(bytes, from, length)| Lifetime {
            bytes,
            from,
            until: from + length,
        })
    }

    fn memory(period: u32, pages: u32, used: &[Times]) -> PagedMemory<'_> {
        PagedMemory { period, page_bytes: PAGE, pages, used }
    }

    fn uncopied(blocks: &[Lifetime]) -> Vec<CopyTiming> {
        blocks.iter().map(|block| CopyTiming { ready: block.until, lead: 0 }).collect()
    }

    fn is_alive(block: &Lifetime, now: u32) -> bool {
        (block.from..block.until).contains(&now) || (block.from..block.until).contains(&(now + PERIOD))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

        #[test]
        fn a_page_is_one_block_s_at_a_time(
            blocks in prop::collection::vec(block(), 0..30),
            pages in 4u32..40,
            late in 0u32..5,
        ) {
            let (small, blocks): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.bytes < PAGE);
            let offsets: Vec<usize> = (0..small.len()).map(|at| 700 * at).collect();
            let used = in_use(&small, &offsets, PERIOD, PAGE);
            let copy = |block: &Lifetime| CopyTiming { ready: block.until + late, lead: block.from % 3 };
            let copied: Vec<CopyTiming> = blocks.iter().map(copy).collect();
            prop_assume!(used.len() <= pages as usize);
            let (assigned, missing) = assign(&blocks, &copied, &memory(PERIOD, pages, &used));
            let pages_of = |at: usize| -> Vec<u32> { assigned[at].iter().cloned().flatten().collect() };
            let needed: usize = blocks.iter().map(|block| block.bytes.div_ceil(PAGE)).sum();
            prop_assert_eq!((0..blocks.len()).map(|at| pages_of(at).len()).sum::<usize>() + missing, needed);
            prop_assert!((0..blocks.len()).flat_map(pages_of).all(|page| page < pages));
            for now in 0..PERIOD {
                let alive = (0..blocks.len()).filter(|&at| is_alive(&blocks[at], now));
                let mut there: Vec<u32> = alive.flat_map(pages_of).collect();
                for (at, &offset) in offsets.iter().enumerate().filter(|&(at, _)| is_alive(&small[at], now)) {
                    let pages = offset / PAGE..(offset + small[at].bytes).div_ceil(PAGE);
                    prop_assert!(pages.clone().all(|page| !there.contains(&(page as u32))), "{now}: {pages:?}");
                }
                let count = there.len();
                there.sort_unstable();
                there.dedup();
                prop_assert_eq!(there.len(), count, "at {}", now);
            }
        }

        #[test]
        fn what_an_iteration_begins_and_ends_without_needs_no_more_than_is_alive(
            blocks in prop::collection::vec(block(), 0..30),
        ) {
            let within: Vec<Lifetime> =
                blocks.into_iter().map(|block| Lifetime { until: block.until.min(PERIOD), ..block }).collect();
            let count = |block: &Lifetime| block.bytes.div_ceil(PAGE) as u32;
            let alive = |now| within.iter().filter(move |block| is_alive(block, now)).map(count).sum::<u32>();
            let most = (0..PERIOD).map(alive).max().unwrap_or(0);
            prop_assert_eq!(assign(&within, &uncopied(&within), &memory(PERIOD, most, &[])).1, 0);
        }
    }

    #[test]
    fn what_can_be_used_first_is_taken() {
        let block = |from, until| Lifetime { bytes: PAGE, from, until };
        let blocks = [block(0, 3), block(1, 2), block(4, 5), block(5, 6)];
        let pages = |blocks: &[Lifetime]| -> Vec<u32> {
            let (assigned, missing) = assign(blocks, &uncopied(blocks), &memory(8, 3, &[]));
            assert_eq!(missing, 0);
            assigned.iter().map(|pages| pages[0].start).collect()
        };
        assert_eq!(pages(&blocks), [0, 1, 0, 0]);
        // The pages that were ready last are taken, or the first that will be ready.
        let third = |ready: [u32; 3]| {
            let copied = ready.map(|ready| CopyTiming { ready, lead: 0 });
            let blocks = [block(0, 2), block(0, 3), block(4, 5)];
            assign(&blocks, &copied, &memory(8, 2, &[])).0[2][0].start
        };
        assert_eq!([[2, 3, 5], [2, 5, 5], [6, 5, 5]].map(third), [1, 0, 1]);
        // A block that is copied into takes pages that are ready before.
        let third = |lead| {
            let copied = [(1, 0), (3, 0), (7, lead)].map(|(ready, lead)| CopyTiming { ready, lead });
            let blocks = [block(0, 1), block(0, 3), block(5, 7)];
            assign(&blocks, &copied, &memory(8, 2, &[])).0[2][0].start
        };
        assert_eq!([0, 2, 4].map(third), [1, 1, 0]);
        // The rest of the time, a page in partial use is as good as others, but only if it is free for long enough.
        let used = in_use(&[Lifetime { bytes: 2, from: 3, until: 5 }], &[PAGE], 8, PAGE);
        let blocks = [block(0, 3), block(1, 4), block(5, 8)];
        let (assigned, missing) = assign(&blocks, &uncopied(&blocks), &memory(8, 2, &used));
        assert_eq!((assigned, missing), (vec![vec![1..2], vec![0..1], vec![1..2]], 0));
        // If a block across the end comes, only blocks that have gone by then leave pages to it.
        assert_eq!(pages(&[block(7, 9), block(2, 8), block(3, 7)]), [1, 0, 1]);
    }

    #[test]
    fn what_is_there_at_the_cut_has_its_pages_ready_in_time() {
        let block = |from, until| Lifetime { bytes: PAGE, from, until };
        // One of the first two blocks always exists, and the circle is cut at 2.
        let blocks = [block(6, 12), block(3, 10), block(4, 5)];
        let copied = [12, 10, 5].map(|ready| CopyTiming { ready, lead: if ready == 12 { 2 } else { 0 } });
        assert_eq!(assign(&blocks, &copied, &memory(8, 3, &[])).0[2][0].start, 2);
    }

    #[test]
    fn the_circle_is_cut_where_no_copy_is_under_way() {
        let block = |from, until| Lifetime { bytes: PAGE, from, until };
        let blocks = [block(6, 9), block(2, 4), block(0, 8)];
        let copied = [11, 5, 8].map(|ready| CopyTiming { ready, lead: 0 });
        assert_eq!(quietest(&blocks, &copied, &[1, 1, 1], 8), 5);
        let (rotated, copied) = rotated(&blocks[0], &copied[0], 5, 8);
        assert_eq!((rotated.from, rotated.until, copied.ready), (1, 4, 6));
        assert_eq!(rotated_times(&vec![0..2, 4..7], 5, 8), [0..2, 3..5, 7..8]);
    }
}
