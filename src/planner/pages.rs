//! Whole pages for blocks whose lifetimes are known. Where each page is mapped by itself, memory is never in pieces: of pages that
//! are free any will do, so that what is alive together fits whenever it is no more than there is. Taken first is what has been
//! free the longest: what was copied out of it is gone the soonest.
//!
//! Time is a circle: what an iteration leaves to the next has the same pages in both.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use super::smartpool::Lifetime;

/// Some of these pages for each block, joined where they are neighbours; none for a block that there are too few for, and how many
/// were missing at the most.
pub fn assign(
    blocks: &[Lifetime],
    period: u32,
    page_bytes: usize,
    pages: Range<u32>,
) -> (Vec<Vec<Range<u32>>>, usize) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    // What is there both when the iteration begins and when it ends comes first, all of it.
    order.sort_by_key(|&at| (blocks[at].until <= period, blocks[at].from));
    let mut assigned: Vec<Vec<Range<u32>>> = vec![Vec::new(); blocks.len()];
    // Until when a page is free, since when, and which.
    let mut free: BTreeSet<(u32, u32, u32)> = pages.clone().map(|page| (period, 0, page)).collect();
    // When what is over the end comes, by page.
    let mut free_until = vec![period; pages.len()];
    let mut missing = 0;
    let mut ends: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    for at in order {
        let Lifetime { bytes, from, until } = blocks[at];
        let (now, until) = if until > period { (0, until - period) } else { (from, until) };
        while let Some(&Reverse((end, before))) = ends.peek()
            && end <= now
        {
            ends.pop();
            let left = assigned[before].iter().cloned().flatten();
            free.extend(left.map(|page| (free_until[(page - pages.start) as usize], end, page)));
        }
        let count = bytes.div_ceil(page_bytes);
        let mut taken: Vec<(u32, u32, u32)> = free.range((until, 0, 0)..).take(count).copied().collect();
        if taken.len() < count {
            missing = missing.max(count - taken.len());
            continue;
        }
        taken.iter().for_each(|page| assert!(free.remove(page), "what is taken was free"));
        if blocks[at].until > period {
            taken.iter().for_each(|&(.., page)| free_until[(page - pages.start) as usize] = from);
        }
        taken.sort_unstable_by_key(|&(.., page)| page);
        let neighbours = taken.chunk_by(|one, next| one.2 + 1 == next.2);
        assigned[at] = neighbours.map(|run| run[0].2..run[run.len() - 1].2 + 1).collect();
        ends.push(Reverse((until, at)));
    }
    (assigned, missing)
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

    fn is_alive(block: &Lifetime, now: u32) -> bool {
        (block.from..block.until).contains(&now) || (block.from..block.until).contains(&(now + PERIOD))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

        #[test]
        fn a_page_is_one_block_s_at_a_time(blocks in prop::collection::vec(block(), 0..30), pages in 4u32..40) {
            let (assigned, missing) = assign(&blocks, PERIOD, PAGE, 3..3 + pages);
            prop_assert_eq!(missing == 0, assigned.iter().all(|pages| !pages.is_empty()));
            let pages_of = |at: usize| -> Vec<u32> { assigned[at].iter().cloned().flatten().collect() };
            for (at, block) in blocks.iter().enumerate() {
                let count = pages_of(at).len();
                prop_assert!(count == 0 || count == block.bytes.div_ceil(PAGE));
                prop_assert!(pages_of(at).iter().all(|page| (3..3 + pages).contains(page)));
            }
            for now in 0..PERIOD {
                let alive = (0..blocks.len()).filter(|&at| is_alive(&blocks[at], now));
                let mut there: Vec<u32> = alive.flat_map(pages_of).collect();
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
            prop_assert_eq!(assign(&within, PERIOD, PAGE, 0..most).1, 0);
        }
    }

    #[test]
    fn what_has_been_free_the_longest_is_taken() {
        let block = |from, until| Lifetime { bytes: PAGE, from, until };
        let blocks = [block(0, 3), block(1, 2), block(4, 5), block(5, 6)];
        let pages = |blocks: &[Lifetime]| -> Vec<u32> {
            let (assigned, missing) = assign(blocks, 8, PAGE, 0..3);
            assert_eq!(missing, 0);
            assigned.iter().map(|pages| pages[0].start).collect()
        };
        assert_eq!(pages(&blocks), [0, 1, 2, 1]);
        // Where something comes that is over the end, only what has gone by then is before it.
        assert_eq!(pages(&[block(7, 9), block(2, 8), block(3, 7)]), [0, 1, 0]);
    }
}
