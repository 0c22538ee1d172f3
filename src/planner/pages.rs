//! Whole pages for blocks whose lifetimes are known. Where each page is mapped by itself, memory is never in pieces: of pages that
//! are free any will do, so that what is alive together fits whenever it is no more than there is. Taken first is what has been
//! free the longest: what was copied out of it is gone the soonest.
//!
//! What is smaller than a page is at addresses of its own. It uses pages for a part of the time; the rest of it they are as good as any.
//!
//! Time is a circle: what an iteration leaves to the next has the same pages in both.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use arrayvec::ArrayVec;

use super::smartpool::Lifetime;

/// What copies need of a block.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// When it can be used by others without a wait for what is copied out of it: when it is free, or later.
    pub ready: u32,
    /// It is copied into: that can begin before the op that it is for, on pages that are ready by then.
    pub is_fetched: bool,
}

/// Times without gaps, in order, none beyond the period.
type Times = Vec<Range<u32>>;

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

/// When a block is there.
fn times_of(block: &Lifetime, period: u32) -> ArrayVec<Range<u32>, 2> {
    let rest = (block.until > period).then(|| 0..block.until - period);
    std::iter::once(block.from..block.until.min(period)).chain(rest).collect()
}

/// Some pages for each block, joined where they are neighbours; fewer than it needs for one that there are too few for, and how many are
/// missing in all. `copied`: by block. `used`: when pages are in use already, those that are not named never.
pub fn assign(
    blocks: &[Lifetime],
    copied: &[Copied],
    period: u32,
    page_bytes: usize,
    pages: u32,
    used: &[Times],
) -> (Vec<Vec<Range<u32>>>, usize) {
    let counts: Vec<usize> = blocks.iter().map(|block| block.bytes.div_ceil(page_bytes)).collect();
    let pages_of = sweep(blocks, copied, &counts, period, pages, used);
    let missing = pages_of.iter().zip(&counts).map(|(pages, count)| count - pages.len()).sum();
    (pages_of.into_iter().map(joined).collect(), missing)
}

fn joined(mut pages: Vec<u32>) -> Vec<Range<u32>> {
    pages.sort_unstable();
    pages.chunk_by(|one, next| one + 1 == *next).map(|run| run[0]..run[run.len() - 1] + 1).collect()
}

/// As many pages for each block as are free when it comes, in the order in which blocks come. What is over the iteration's end takes
/// pages that are never in use.
fn sweep(
    blocks: &[Lifetime],
    copied: &[Copied],
    counts: &[usize],
    period: u32,
    pages: u32,
    used: &[Times],
) -> Vec<Vec<u32>> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    // What is there both when the iteration begins and when it ends comes first, all of it.
    order.sort_by_key(|&at| (blocks[at].until <= period, blocks[at].from));
    let mut pages_of: Vec<Vec<u32>> = vec![Vec::new(); blocks.len()];
    let is_ever_used = |page: u32| used.get(page as usize).is_some_and(|times| !times.is_empty());
    // Until when a page is free, when it is ready, and which.
    let mut free: BTreeSet<(u32, u32, u32)> =
        (0..pages).filter(|&page| !is_ever_used(page)).map(|page| (period, 0, page)).collect();
    // What else is free, and for how long, what comes next last.
    let mut gaps: Vec<(Range<u32>, u32)> = (0..pages)
        .zip(used)
        .flat_map(|(page, times)| {
            gaps_of(times, period)
                .filter(|_| is_ever_used(page))
                .map(move |gap| (gap, page))
                .collect::<Vec<_>>()
        })
        .collect();
    gaps.sort_unstable_by_key(|(gap, page)| Reverse((gap.start, *page)));
    // The end of the gap that a page is in, by page.
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
            free.extend(pages_of[before].iter().map(|&page| (free_until[page as usize], ready, page)));
        }
        while let Some((gap, page)) = gaps.pop_if(|(gap, _)| !is_over && gap.start <= now) {
            free_until[page as usize] = gap.end;
            free.insert((gap.end, gap.start, page));
        }
        let long_enough = || free.range((until, 0, 0)..).copied();
        // What is copied into takes what has been ready the longest.
        let ready_by = if copied[at].is_fetched { 0 } else { now };
        let mut taken: Vec<(u32, u32, u32)> =
            long_enough().filter(|&(_, ready, _)| ready <= ready_by).take(counts[at]).collect();
        if taken.len() < counts[at] {
            let mut later: Vec<_> = long_enough().filter(|&(_, ready, _)| ready > ready_by).collect();
            later.sort_unstable_by_key(|&(until, ready, page)| (ready, until, page));
            later.truncate(counts[at] - taken.len());
            taken.extend(later);
        }
        for page in taken {
            assert!(free.remove(&page), "what is taken was free");
            pages_of[at].push(page.2);
            if is_over {
                free_until[page.2 as usize] = from;
            }
        }
        ends.push(Reverse((until, at)));
    }
    pages_of
}

/// The times between these.
fn gaps_of(times: &Times, period: u32) -> impl Iterator<Item = Range<u32>> {
    let begins = std::iter::once(0).chain(times.iter().map(|time| time.end));
    let ends = times.iter().map(|time| time.start).chain([period]);
    begins.zip(ends).map(|(begin, end)| begin..end).filter(|gap| !gap.is_empty())
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

    fn uncopied(blocks: &[Lifetime]) -> Vec<Copied> {
        blocks.iter().map(|block| Copied { ready: block.until, is_fetched: false }).collect()
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
            let copy = |block: &Lifetime| Copied { ready: block.until + late, is_fetched: block.from.is_multiple_of(2) };
            let copied: Vec<Copied> = blocks.iter().map(copy).collect();
            prop_assume!(used.len() <= pages as usize);
            let (assigned, missing) = assign(&blocks, &copied, PERIOD, PAGE, pages, &used);
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
            prop_assert_eq!(assign(&within, &uncopied(&within), PERIOD, PAGE, most, &[]).1, 0);
        }
    }

    #[test]
    fn what_can_be_used_first_is_taken() {
        let block = |from, until| Lifetime { bytes: PAGE, from, until };
        let blocks = [block(0, 3), block(1, 2), block(4, 5), block(5, 6)];
        let pages = |blocks: &[Lifetime]| -> Vec<u32> {
            let (assigned, missing) = assign(blocks, &uncopied(blocks), 8, PAGE, 3, &[]);
            assert_eq!(missing, 0);
            assigned.iter().map(|pages| pages[0].start).collect()
        };
        assert_eq!(pages(&blocks), [0, 1, 2, 1]);
        // What is copied out of the second takes longer.
        let third = |ready: [u32; 3]| {
            let copied = ready.map(|ready| Copied { ready, is_fetched: false });
            let blocks = [block(0, 2), block(0, 3), block(4, 5)];
            assign(&blocks, &copied, 8, PAGE, 2, &[]).0[2][0].start
        };
        assert_eq!([[2, 3, 5], [5, 3, 5], [6, 5, 5]].map(third), [0, 1, 1]);
        // What is copied into takes what has been ready the longest, though something else would fit better.
        let third = |is_fetched| {
            let copied = [12, 3, 5].map(|ready| Copied { ready, is_fetched });
            let blocks = [block(6, 9), block(0, 3), block(4, 5)];
            assign(&blocks, &copied, 8, PAGE, 2, &[]).0[2][0].start
        };
        assert_eq!([true, false].map(third), [1, 0]);
        // Of a page that is in use for a part of the time the rest is as good, and no longer than is needed.
        let used = in_use(&[Lifetime { bytes: 2, from: 3, until: 5 }], &[PAGE], 8, PAGE);
        let blocks = [block(0, 3), block(1, 4), block(5, 8)];
        let (assigned, missing) = assign(&blocks, &uncopied(&blocks), 8, PAGE, 2, &used);
        assert_eq!((assigned, missing), (vec![vec![1..2], vec![0..1], vec![0..1]], 0));
        // Where something comes that is over the end, only what has gone by then is before it.
        assert_eq!(pages(&[block(7, 9), block(2, 8), block(3, 7)]), [0, 1, 0]);
    }
}
