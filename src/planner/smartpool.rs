//! Addresses for blocks with known lifetimes, by SmartPool: Zhang et al., *Efficient Memory Management for GPU-based Deep
//! Learning Systems* (arXiv:1903.06631), section 3. Blocks are the nodes of an interval graph, weighted by their sizes, and
//! addresses are its colours. One block after the other gets the lowest address that no concurrent block has. Time is a circle:
//! a block that an iteration leaves to the next keeps its address.
//!
//! In the paper the largest block comes first. That is best for few programs, so other orders are tried too. Then
//! [`ejection`](super::ejection) improves the result.

use super::ejection;
use super::lifetime::{Lifetime, peak_bytes};

/// The placements of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedBlocks {
    /// By block.
    pub offsets: Vec<usize>,
    /// The end of the highest block.
    pub footprint_bytes: usize,
}

/// The orders that are tried, by the key of a block.
const ORDERS: [fn(&Lifetime) -> u128; 5] = [
    |block| u128::MAX - block.bytes as u128 * length(block),
    |block| u128::MAX - ((block.bytes as u128) << 32) - length(block),
    |block| u128::MAX - (length(block) << 64) - block.bytes as u128,
    |block| u128::from(block.from),
    |block| u128::MAX - u128::from(block.until),
];

/// The smallest blocks, which find room between the others, take one of so many parts of memory together.
const SMALL_PART: usize = 500;

fn length(block: &Lifetime) -> u128 {
    u128::from(block.until - block.from)
}

/// Places blocks so that concurrent blocks do not overlap and the footprint is small. It ends as soon as the footprint is
/// `enough_bytes`, or after so many steps of a search. A step looks at one block that is already placed.
pub fn place(blocks: &[Lifetime], period: u32, enough_bytes: usize, max_steps: u64) -> PlacedBlocks {
    let goal_bytes = peak_bytes(blocks, period).max(enough_bytes);
    let ordered = in_each_order(blocks, period).into_iter().min_by_key(|placed| placed.footprint_bytes);
    let ordered = ordered.expect("there are several orders");
    if ordered.footprint_bytes <= goal_bytes {
        return ordered;
    }
    PlacementSearch::new(blocks, period).one_by_one(ordered, goal_bytes, max_steps)
}

/// The placements of each order on its own. Some of them have few blocks at high addresses for most of the time.
pub fn in_each_order(blocks: &[Lifetime], period: u32) -> [PlacedBlocks; ORDERS.len()] {
    let mut search = PlacementSearch::new(blocks, period);
    ORDERS.map(|key| search.in_order(&ordered(blocks, key)))
}

fn ordered(blocks: &[Lifetime], key: fn(&Lifetime) -> u128) -> Vec<u32> {
    let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
    order.sort_by_key(|&at| key(&blocks[at as usize]));
    order
}

struct PlacementSearch<'a> {
    blocks: &'a [Lifetime],
    period: u32,
    /// Begin, end and lifetime of the placed blocks, sorted by begin.
    taken: Vec<(usize, usize, u32, u32)>,
}

impl<'a> PlacementSearch<'a> {
    fn new(blocks: &'a [Lifetime], period: u32) -> Self {
        PlacementSearch { blocks, period, taken: Vec::with_capacity(blocks.len()) }
    }

    /// Places the blocks that always exist at the bottom, the large ones by ejection search, and the small ones where they find
    /// room. If they do not fit, the small ones are placed by ejection search as well.
    fn one_by_one(&mut self, ordered: PlacedBlocks, goal_bytes: usize, max_steps: u64) -> PlacedBlocks {
        let PlacementSearch { blocks, period, .. } = *self;
        let lasts = |at: &u32| length(&blocks[*at as usize]) >= u128::from(period);
        let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
        order.sort_by_key(|at| (!lasts(at), blocks[*at as usize].bytes));
        let (lasting, rest) = order.split_at(order.partition_point(lasts));
        let mut placed = ordered;
        let mut used_steps = 0;
        for (small, max_steps) in [(self.small(rest, goal_bytes), max_steps / 2), (0, max_steps)] {
            let (small, large) = rest.split_at(small);
            let mut large = large.to_vec();
            large.sort_by_key(|&at| placed.offsets[at as usize]);
            let before = std::mem::replace(
                &mut placed,
                PlacedBlocks { offsets: vec![0; blocks.len()], footprint_bytes: 0 },
            );
            self.taken.clear();
            lasting.iter().for_each(|&at| self.take(&mut placed, at));
            let base_bytes = placed.footprint_bytes;
            let those: Vec<Lifetime> = large.iter().map(|&at| blocks[at as usize]).collect();
            let mut search = PlacementSearch::new(&those, period);
            let mut found = search.in_order(&Vec::from_iter(0..those.len() as u32));
            used_steps += ejection::improve(
                &those,
                period,
                &mut found.offsets,
                goal_bytes - base_bytes,
                max_steps - used_steps,
            );
            for (&at, offset) in large.iter().zip(&found.offsets) {
                self.take_at(&mut placed, at, base_bytes + offset);
            }
            small.iter().rev().for_each(|&at| self.take(&mut placed, at));
            if placed.footprint_bytes > before.footprint_bytes {
                placed = before;
            }
            if placed.footprint_bytes <= goal_bytes {
                break;
            }
        }
        placed
    }

    /// How many of these blocks, the smallest first, count as small.
    fn small(&self, order: &[u32], goal_bytes: usize) -> usize {
        let (mut small, mut large) = (0, order.len() + 1);
        while large - small > 1 {
            let middle = usize::midpoint(small, large);
            let those: Vec<Lifetime> = order[..middle].iter().map(|&at| self.blocks[at as usize]).collect();
            let is_small = peak_bytes(&those, self.period) <= goal_bytes / SMALL_PART;
            if is_small { small = middle } else { large = middle }
        }
        small
    }

    fn in_order(&mut self, order: &[u32]) -> PlacedBlocks {
        self.taken.clear();
        let mut placed = PlacedBlocks { offsets: vec![0; self.blocks.len()], footprint_bytes: 0 };
        for &at in order {
            self.take(&mut placed, at);
        }
        placed
    }

    fn take(&mut self, placed: &mut PlacedBlocks, at: u32) {
        let offset = self.lowest(&self.blocks[at as usize]);
        self.take_at(placed, at, offset);
    }

    fn take_at(&mut self, placed: &mut PlacedBlocks, at: u32, offset: usize) {
        let block = &self.blocks[at as usize];
        let place = self.taken.partition_point(|&(begin, ..)| begin < offset);
        self.taken.insert(place, (offset, offset + block.bytes, block.from, block.until));
        placed.offsets[at as usize] = offset;
        placed.footprint_bytes = placed.footprint_bytes.max(offset + block.bytes);
    }

    /// The lowest address that is free for the block's lifetime.
    fn lowest(&self, block: &Lifetime) -> usize {
        let Lifetime { bytes, from, until } = *block;
        let mut offset = 0;
        for &(begin, end, other_from, other_until) in &self.taken {
            let together = from < other_until && other_from < until
                || from + self.period < other_until
                || other_from + self.period < until;
            if !together || end <= offset {
                continue;
            }
            if begin >= offset + bytes {
                break;
            }
            offset = end;
        }
        offset
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn together(a: &Lifetime, b: &Lifetime, period: u32) -> bool {
        let alive = |block: &Lifetime, now: u32| {
            (block.from..block.until).contains(&now) || (block.from..block.until).contains(&(now + period))
        };
        (0..period).any(|now| alive(a, now) && alive(b, now))
    }

    fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
        a.0 < b.0 + b.1 && b.0 < a.0 + a.1
    }

    const PERIOD: u32 = 24;

    fn block() -> impl Strategy<Value = Lifetime> {
        (1..40usize, 0..PERIOD, 1..=PERIOD).prop_map(|(units, from, length)| Lifetime {
            bytes: units * 256,
            from,
            until: from + length,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

        #[test]
        fn blocks_that_are_alive_together_never_overlap(blocks in prop::collection::vec(block(), 0..40)) {
            let placed = place(&blocks, PERIOD, 0, 20_000);
            prop_assert_eq!(&placed, &place(&blocks, PERIOD, 0, 20_000), "the same every time");
            let range = |at: usize| (placed.offsets[at], blocks[at].bytes);
            let mut highest = 0;
            for a in 0..blocks.len() {
                highest = highest.max(placed.offsets[a] + blocks[a].bytes);
                for b in a + 1..blocks.len() {
                    let apart = !overlap(range(a), range(b));
                    prop_assert!(apart || !together(&blocks[a], &blocks[b], PERIOD), "{} and {}", a, b);
                }
            }
            prop_assert_eq!(placed.footprint_bytes, highest);
            let alive = |now| blocks.iter().filter(move |block| together(block, &Lifetime { bytes: 0, from: now, until: now + 1 }, PERIOD));
            let peak = (0..PERIOD).map(|now| alive(now).map(|block| block.bytes).sum::<usize>()).max();
            prop_assert_eq!(peak_bytes(&blocks, PERIOD), peak.unwrap_or(0));
            prop_assert!(placed.footprint_bytes >= peak.unwrap_or(0));
        }

        #[test]
        fn nested_lifetimes_take_no_more_than_is_alive(sizes in prop::collection::vec(1..40usize, 1..12)) {
            let nested = |(depth, &units): (usize, &usize)| Lifetime {
                bytes: units * 256,
                from: depth as u32,
                until: PERIOD - depth as u32,
            };
            let blocks: Vec<Lifetime> = sizes.iter().enumerate().map(nested).collect();
            let placed = place(&blocks, PERIOD, 0, 20_000);
            prop_assert_eq!(placed.footprint_bytes, peak_bytes(&blocks, PERIOD));
        }
    }

    #[test]
    fn what_no_order_places_below_the_peak_is_searched_for() {
        // Three blocks of which two exist at any time, and one across the end of the iteration.
        let block = |units: usize, from, until| Lifetime { bytes: units * 256, from, until };
        let blocks = [block(2, 0, 3), block(3, 2, 6), block(2, 5, 8), block(3, 7, 9), block(1, 3, 5)];
        let placed = place(&blocks, 8, 0, 10_000);
        assert_eq!((peak_bytes(&blocks, 8), placed.footprint_bytes), (5 * 256, 5 * 256));
    }
}
