//! Addresses for blocks whose lifetimes are known: SmartPool, of Zhang et al., *Efficient Memory Management for GPU-based Deep
//! Learning Systems* (arXiv:1903.06631), section 3. Blocks are the nodes of an interval graph, weighted by their sizes, and
//! addresses its colours; one block after the other gets the lowest that none has which is alive with it. Time is a circle:
//! what an iteration leaves to the next keeps its address.
//!
//! There the largest comes first. That is best for few programs, so other orders are tried too; and each is improved as in
//! Joslin and Clements, *Squeaky Wheel Optimization* (JAIR 10, 1999): what came to lie too high is placed earlier next time.

/// Memory that is in use for part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    pub bytes: usize,
    /// When it begins, less than the period.
    pub from: u32,
    /// When it has ended: more than `from` by a period at the most, which is all the time.
    pub until: u32,
}

/// Where blocks are.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// By block.
    pub offsets: Vec<usize>,
    /// Where the highest ends.
    pub footprint_bytes: usize,
}

/// The most bytes in use at once, which no placement has less than.
pub fn peak_bytes(blocks: &[Lifetime], period: u32) -> usize {
    let mut change_bytes = vec![0isize; period as usize + 1];
    for block in blocks {
        let bytes = block.bytes as isize;
        change_bytes[block.from as usize] += bytes;
        change_bytes[block.until.min(period) as usize] -= bytes;
        if block.until > period {
            change_bytes[0] += bytes;
            change_bytes[(block.until - period) as usize] -= bytes;
        }
    }
    let mut used_bytes = 0;
    let used = change_bytes.into_iter().map(|change| {
        used_bytes += change;
        used_bytes as usize
    });
    used.max().unwrap_or(0)
}

/// Orders that are tried, by what comes first.
const ORDERS: [fn(&Lifetime) -> u128; 5] = [
    |block| u128::MAX - block.bytes as u128 * length(block),
    |block| u128::MAX - ((block.bytes as u128) << 32) - length(block),
    |block| u128::MAX - (length(block) << 64) - block.bytes as u128,
    |block| u128::from(block.from),
    |block| u128::MAX - u128::from(block.until),
];

fn length(block: &Lifetime) -> u128 {
    u128::from(block.until - block.from)
}

/// Places blocks so that none overlap that are alive together, and the footprint is small. Ends as soon as that is `enough_bytes`
/// or, if some placement was found, after so many steps; a step is one look at a block that was placed before.
pub fn place(blocks: &[Lifetime], period: u32, enough_bytes: usize, most_steps: u64) -> Placed {
    let goal_bytes = peak_bytes(blocks, period).max(enough_bytes);
    let mut orders = ORDERS.map(|key| {
        let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
        order.sort_by_key(|&at| key(&blocks[at as usize]));
        order
    });
    let mut placing = Placing { blocks, period, taken: Vec::with_capacity(blocks.len()), steps: 0 };
    let mut best: Option<Placed> = None;
    let mut least_bytes = [usize::MAX; ORDERS.len()];
    for round in 0.. {
        for (order, least_bytes) in orders.iter_mut().zip(&mut least_bytes) {
            let placed = placing.in_order(order);
            let footprint_bytes = placed.footprint_bytes;
            *least_bytes = footprint_bytes.min(*least_bytes);
            let high = |at: u32, limit_bytes: usize| {
                placed.offsets[at as usize] + blocks[at as usize].bytes > limit_bytes
            };
            if round % 2 == 0 {
                bring_forward(order, |at| high(at, goal_bytes), |place, count| 4 * place - count, 4);
            } else {
                let limit_bytes = (goal_bytes + *least_bytes) / 2;
                bring_forward(order, |at| high(at, limit_bytes), |place, _| 7 * place - 5, 10);
            }
            if best.as_ref().is_none_or(|best| footprint_bytes < best.footprint_bytes) {
                best = Some(placed);
            }
            if let Some(best) =
                best.take_if(|best| best.footprint_bytes <= goal_bytes || placing.steps > most_steps)
            {
                return best;
            }
        }
    }
    unreachable!("every placement takes a step, so that they come to an end")
}

/// Changes an order: what lies too high comes earlier. `earlier`: where, by its place and the number of blocks, in parts of a
/// place.
fn bring_forward(
    order: &mut Vec<u32>,
    is_high: impl Fn(u32) -> bool,
    earlier: impl Fn(i64, i64) -> i64,
    parts: i64,
) {
    let count = order.len() as i64;
    let key = |(place, &at): (usize, &u32)| {
        let place = place as i64;
        (if is_high(at) { earlier(place, count) } else { parts * place }, at)
    };
    let mut keyed: Vec<(i64, u32)> = order.iter().enumerate().map(key).collect();
    keyed.sort_by_key(|&(key, _)| key);
    order.clear();
    order.extend(keyed.into_iter().map(|(_, at)| at));
}

struct Placing<'a> {
    blocks: &'a [Lifetime],
    period: u32,
    /// Begin, end and lifetime of what is placed, by where it begins.
    taken: Vec<(usize, usize, u32, u32)>,
    steps: u64,
}

impl Placing<'_> {
    fn in_order(&mut self, order: &[u32]) -> Placed {
        self.taken.clear();
        let mut placed = Placed { offsets: vec![0; self.blocks.len()], footprint_bytes: 0 };
        for &at in order {
            let block = &self.blocks[at as usize];
            let offset = self.lowest(block);
            let place = self.taken.partition_point(|&(begin, ..)| begin < offset);
            self.taken.insert(place, (offset, offset + block.bytes, block.from, block.until));
            placed.offsets[at as usize] = offset;
            placed.footprint_bytes = placed.footprint_bytes.max(offset + block.bytes);
        }
        self.steps += 1;
        placed
    }

    /// The lowest address that is free as long as a block is alive.
    fn lowest(&mut self, block: &Lifetime) -> usize {
        let Lifetime { bytes, from, until } = *block;
        let mut offset = 0;
        for &(begin, end, other_from, other_until) in &self.taken {
            self.steps += 1;
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
    fn what_lies_too_high_is_placed_earlier_next_time() {
        // Three that are always there two at a time, and one across the end of the iteration.
        let block = |units: usize, from, until| Lifetime { bytes: units * 256, from, until };
        let blocks = [block(2, 0, 3), block(3, 2, 6), block(2, 5, 8), block(3, 7, 9), block(1, 3, 5)];
        let placed = place(&blocks, 8, 0, 10_000);
        assert_eq!((peak_bytes(&blocks, 8), placed.footprint_bytes), (5 * 256, 5 * 256));
    }
}
