//! Improves placements by guided ejection search: Nagata and Bräysy, *A Powerful Route Minimization Heuristic for the Vehicle
//! Routing Problem with Time Windows* (Operations Research Letters 37, 2009). The search places all blocks below a height. It
//! first ejects the blocks above. Then it takes the block that was ejected last, places it where the blocks that it overlaps
//! weigh the least, and ejects those. A block that ejects others weighs more from then on.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::lifetime::Lifetime;

/// The most blocks. The concurrency matrix takes a bit for each pair.
const MAX_BLOCKS: usize = 1 << 14;
/// Steps for each block that is looked at; each is looked at twice.
const STEPS_EACH: u64 = 3;
/// Steps until another height is tried. Each block is placed several times in so many steps.
const STEPS_A_HEIGHT: u64 = 8_000_000;
/// The first height between the goal and the best placement, as a part of the distance, and the last.
const FIRST_PART: f64 = 0.5;
const LAST_PART: f64 = 0.95;

/// Which blocks exist at the same time: a row of bits for each block.
struct ConcurrencyMatrix {
    bits: Vec<u64>,
    words: usize,
}

impl ConcurrencyMatrix {
    fn new(blocks: &[Lifetime], period: u32) -> Self {
        let words = blocks.len().div_ceil(64);
        let mut together = ConcurrencyMatrix { bits: vec![0; words * blocks.len()], words };
        let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
        order.sort_by_key(|&at| blocks[at as usize].from);
        let froms: Vec<u32> = order.iter().map(|&at| blocks[at as usize].from).collect();
        let first_from = |now: u32| froms.partition_point(|&from| from < now);
        // Of two blocks that exist at the same time, one begins while the other exists.
        for (at, block) in blocks.iter().enumerate() {
            let wrapped = first_from(block.until.saturating_sub(period));
            for &other in
                order[first_from(block.from)..first_from(block.until)].iter().chain(&order[..wrapped])
            {
                together.set(at, other as usize);
                together.set(other as usize, at);
            }
        }
        together
    }

    fn set(&mut self, one: usize, other: usize) {
        self.bits[one * self.words + other / 64] |= 1 << (other % 64);
    }

    fn with(&self, at: u32) -> &[u64] {
        &self.bits[at as usize * self.words..][..self.words]
    }
}

fn is_in(row: &[u64], at: u32) -> bool {
    row[at as usize / 64] >> (at % 64) & 1 == 1
}

/// Addresses in order, with the blocks that begin or end there.
#[derive(Default)]
struct Edges(Vec<(usize, u32)>);

impl Edges {
    fn add(&mut self, address: usize, at: u32) {
        let place = self.0.partition_point(|&edge| edge < (address, at));
        self.0.insert(place, (address, at));
    }

    fn remove(&mut self, address: usize, at: u32) {
        let place = self.0.binary_search(&(address, at)).expect("it was added");
        self.0.remove(place);
    }

    /// Finds the addresses of the blocks in a row, and their weights.
    fn weighed(&self, row: &[u64], weights: &[f64], found: &mut Vec<(usize, f64)>) {
        found.resize(self.0.len(), (0, 0.0));
        let mut count = 0;
        for &(address, at) in &self.0 {
            // There is no branch, since the processor could not predict it.
            found[count] = (address, weights[at as usize]);
            count += usize::from(is_in(row, at));
        }
        found.truncate(count);
    }
}

/// Improves a placement until it reaches no further than `goal_bytes`, for at most so many steps. Returns how many it took.
pub fn improve(
    blocks: &[Lifetime],
    period: u32,
    offsets: &mut [usize],
    goal_bytes: usize,
    max_steps: u64,
) -> u64 {
    if blocks.len() > MAX_BLOCKS {
        return 0;
    }
    let together = ConcurrencyMatrix::new(blocks, period);
    let reach = |offsets: &[usize]| {
        blocks.iter().zip(offsets).map(|(block, offset)| offset + block.bytes).max().unwrap_or(0)
    };
    let mut search = EjectionSearch::new(blocks, &together, offsets);
    let (mut best_bytes, mut part) = (reach(offsets), FIRST_PART);
    while best_bytes > goal_bytes && search.steps < max_steps {
        let above_bytes = (best_bytes - goal_bytes) as f64 * part;
        let until = max_steps.min(search.steps + STEPS_A_HEIGHT);
        if search.bring_below(goal_bytes + above_bytes as usize, until) {
            offsets.copy_from_slice(&search.placed());
            best_bytes = reach(offsets);
            part /= 2.0;
        } else {
            search.begin_at(offsets);
            part = if part > LAST_PART { FIRST_PART } else { f64::midpoint(part, 1.0) };
        }
    }
    search.steps
}

struct EjectionSearch<'a> {
    blocks: &'a [Lifetime],
    together: &'a ConcurrencyMatrix,
    /// The offset of each block, or `None` if it is ejected.
    offsets: Vec<Option<usize>>,
    /// The ejected blocks. The last is placed next.
    out: Vec<u32>,
    begins: Edges,
    ends: Edges,
    /// The weight of each block, and the weight that is added each time it ejects others. A block is heavier the harder it is
    /// to place.
    weights: Vec<f64>,
    hardness: Vec<f64>,
    /// Where the blocks that exist at the same time as a block begin and end, with their weights.
    near_begins: Vec<(usize, f64)>,
    near_ends: Vec<(usize, f64)>,
    random: ChaCha8Rng,
    steps: u64,
}

impl<'a> EjectionSearch<'a> {
    fn new(blocks: &'a [Lifetime], together: &'a ConcurrencyMatrix, offsets: &[usize]) -> Self {
        let hard = |block: &Lifetime| (block.bytes as f64 * f64::from(block.until - block.from)).sqrt();
        let hardness: Vec<f64> = blocks.iter().map(hard).collect();
        let mut search = EjectionSearch {
            blocks,
            together,
            offsets: Vec::new(),
            out: Vec::new(),
            begins: Edges::default(),
            ends: Edges::default(),
            weights: hardness.clone(),
            hardness,
            near_begins: Vec::new(),
            near_ends: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(0),
            steps: 0,
        };
        search.begin_at(offsets);
        search
    }

    fn begin_at(&mut self, offsets: &[usize]) {
        self.offsets = vec![None; offsets.len()];
        self.out.clear();
        self.begins.0.clear();
        self.ends.0.clear();
        for (at, &offset) in (0..).zip(offsets) {
            self.put(at, offset);
        }
    }

    fn put(&mut self, at: u32, offset: usize) {
        self.offsets[at as usize] = Some(offset);
        self.begins.add(offset, at);
        self.ends.add(offset + self.blocks[at as usize].bytes, at);
    }

    fn take_out(&mut self, at: u32) {
        let offset = self.offsets[at as usize].take().expect("it is in");
        self.begins.remove(offset, at);
        self.ends.remove(offset + self.blocks[at as usize].bytes, at);
        self.out.push(at);
    }

    /// The offsets of all blocks.
    fn placed(&self) -> Vec<usize> {
        self.offsets.iter().map(|offset| offset.expect("nothing is out")).collect()
    }

    /// Sorts the blocks ejected since, so that the largest is placed first.
    fn sort_out(&mut self, since: usize) {
        let blocks = self.blocks;
        self.out[since..].sort_by_key(|&at| (blocks[at as usize].bytes, at));
    }

    fn bring_below(&mut self, height: usize, max_steps: u64) -> bool {
        let first = self.ends.0.partition_point(|&(end, _)| end <= height);
        let above: Vec<u32> = self.ends.0[first..].iter().map(|&(_, at)| at).collect();
        above.into_iter().for_each(|at| self.take_out(at));
        self.sort_out(0);
        while self.steps < max_steps {
            let Some(at) = self.out.pop() else { return true };
            self.put_in(at, height);
        }
        self.out.is_empty()
    }

    fn put_in(&mut self, at: u32, height: usize) {
        let row = self.together.with(at);
        self.begins.weighed(row, &self.weights, &mut self.near_begins);
        self.ends.weighed(row, &self.weights, &mut self.near_ends);
        self.steps += STEPS_EACH * (self.begins.0.len() as u64 + 1);
        let bytes = self.blocks[at as usize].bytes;
        let (weight, offset) = self.lightest(bytes, height);
        if weight > 0.0 {
            self.weights[at as usize] += self.hardness[at as usize];
            self.eject(row, offset, offset + bytes);
        }
        self.put(at, offset);
    }

    /// The offset, next to placed blocks, at which the overlapped blocks weigh the least, and that weight. Of several one is
    /// random.
    fn lightest(&mut self, bytes: usize, height: usize) -> (f64, usize) {
        let Self { near_begins: begins, near_ends: ends, random, .. } = self;
        let mut best = (f64::INFINITY, 0);
        let mut ties = 0;
        let mut consider = |weight: f64, offset: usize| {
            ties = if weight < best.0 { 1 } else { ties + u32::from(weight == best.0) };
            if weight < best.0 || weight == best.0 && random.random_range(0..ties) == 0 {
                best = (weight, offset);
            }
        };
        let above = std::iter::once(0).chain(ends.iter().map(|&(end, _)| end));
        let mut sweep = Sweep::new(begins, ends);
        for offset in above.take_while(|offset| offset + bytes <= height) {
            consider(sweep.weight(offset, offset + bytes), offset);
        }
        let below = begins.iter().map(|&(begin, _)| begin).chain([height]);
        let mut sweep = Sweep::new(begins, ends);
        for end in below.filter(|end| (bytes..=height).contains(end)) {
            consider(sweep.weight(end - bytes, end), end - bytes);
        }
        best
    }

    /// Ejects the blocks between two addresses.
    fn eject(&mut self, row: &[u64], begin: usize, end: usize) {
        let first = self.out.len();
        let last = self.begins.0.partition_point(|&(other, _)| other < end);
        let between = self.begins.0[..last]
            .iter()
            .filter(|&&(other, at)| is_in(row, at) && begin < other + self.blocks[at as usize].bytes);
        let between: Vec<u32> = between.map(|&(_, at)| at).collect();
        between.into_iter().for_each(|at| self.take_out(at));
        self.sort_out(first);
    }
}

/// The weight that a moving range of addresses overlaps: the blocks that begin before its end, less those that end before it
/// begins.
struct Sweep<'a> {
    begins: &'a [(usize, f64)],
    ends: &'a [(usize, f64)],
    begun: usize,
    ended: usize,
    weight: f64,
}

impl<'a> Sweep<'a> {
    fn new(begins: &'a [(usize, f64)], ends: &'a [(usize, f64)]) -> Self {
        Sweep { begins, ends, begun: 0, ended: 0, weight: 0.0 }
    }

    fn weight(&mut self, begin: usize, end: usize) -> f64 {
        while let Some(&(_, weight)) = self.begins.get(self.begun).filter(|&&(other, _)| other < end) {
            self.weight += weight;
            self.begun += 1;
        }
        while let Some(&(_, weight)) = self.ends.get(self.ended).filter(|&&(other, _)| other <= begin) {
            self.weight -= weight;
            self.ended += 1;
        }
        // If no block overlaps, the weight is exactly zero, without the rounding errors of the sums.
        if self.begun == self.ended { 0.0 } else { self.weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_top_of_each_other_is_brought_below_the_goal() {
        // One block of a unit exists for most of the time. Besides it there are two blocks of one and two units, three times,
        // and one across the end.
        let block = |units: usize, from, until| Lifetime { bytes: units * 256, from, until };
        let mut blocks = vec![block(1, 1, 15), block(3, 15, 17)];
        blocks.extend(
            (0..3).flat_map(|time| {
                [block(1, 4 * time + 1, 4 * time + 4), block(2, 4 * time + 1, 4 * time + 5)]
            }),
        );
        let below = |top: &mut usize, block: &Lifetime| {
            *top += block.bytes;
            Some(*top - block.bytes)
        };
        let mut offsets: Vec<usize> = blocks.iter().scan(0, below).collect();
        improve(&blocks, 16, &mut offsets, 4 * 256, 1_000_000);
        let placed: Vec<(u32, usize, usize)> = (0..)
            .zip(blocks.iter().zip(&offsets))
            .map(|(at, (block, &offset))| (at, offset, offset + block.bytes))
            .collect();
        assert_eq!(placed.iter().map(|&(.., end)| end).max(), Some(4 * 256));
        let together = ConcurrencyMatrix::new(&blocks, 16);
        for &(one, begin, end) in &placed {
            for &(other, other_begin, other_end) in &placed {
                let apart = end <= other_begin || other_end <= begin;
                assert!(one == other || apart || !is_in(together.with(one), other), "{one} and {other}");
            }
        }
    }
}
