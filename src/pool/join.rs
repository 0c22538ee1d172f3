//! Free memory in pieces too small for a block: what lies between them is moved.
//!
//! Within device memory, that takes a fraction of what it takes to copy bytes to the host or to make them again.

use std::cmp::Reverse;

use super::Pool;
use super::sabotage::Sabotage;
use super::storage::{Residents, StorageId};
use crate::engine::{Lane, aligned};
use crate::error::Error;

/// Ranges of which it is looked what lies in them, those first that the most is free in; and that are tried for a block, those first that the
/// fewest bytes have to be moved for.
const MOST_RANGES: usize = 64;
const MOST_TRIED: usize = 4;

/// What is moved for a block, as a multiple of its size, at the most.
const MOST_PARTS: usize = 4;

/// A part of memory that a block might have.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    offset: usize,
    bytes: usize,
    /// What is free in it, and what is not but could be: bytes of residents.
    clear_bytes: usize,
    /// Those that lie in it, and what they take there and around it.
    residents: Vec<StorageId>,
    resident_bytes: usize,
}

impl Pool {
    /// Makes a free range of so many bytes, of which there are enough in pieces. `false`: what is in the way has no other place, or is too
    /// much.
    pub(super) fn join(&mut self, bytes: usize) -> Result<bool, Error> {
        // Planted fault: it shows where pages are put side by side.
        if self.settings.sabotage == Some(Sabotage::EarlyMapping) {
            return Ok(false);
        }
        // Beside ops that need none of it, unless it would wait for other copies.
        let lane = if self.offload_wait_ns() == 0 { Lane::Offload } else { Lane::Compute };
        let peak_bytes = self.device.peak_bytes();
        let mut joined = Ok(false);
        for Range { offset, bytes, residents, .. } in self.ranges(aligned(bytes)).into_iter().take(MOST_TRIED)
        {
            joined = self.clear_of(lane, &[(offset, bytes)], residents);
            if !matches!(joined, Ok(false)) {
                break;
            }
        }
        // What is held free meanwhile, and what is on its way, is no more in use than before.
        self.device.reset_peak_to(peak_bytes);
        joined
    }

    /// Ranges of so many bytes in which all can be moved that lies there, if it is not too much, the least first.
    fn ranges(&self, bytes: usize) -> Vec<Range> {
        let limit_bytes = self.device.limit_bytes();
        let mut ranges = ranges(&self.device.free_within(0, limit_bytes), bytes, limit_bytes);
        let storages = &self.graph.storages;
        for id in storages.in_any_order(Residents::default()) {
            let block = storages[id].device.expect("it is resident").block;
            self.device.each_range(block, |at, size| note(&mut ranges, id, at, size));
        }
        ranges.retain(|range| {
            range.clear_bytes == range.bytes && range.resident_bytes <= MOST_PARTS * range.bytes
        });
        ranges.sort_unstable_by_key(|range| (range.resident_bytes, range.offset));
        ranges
    }
}

/// The ranges of so many bytes, in order, that the most is free in: they begin or end with what is.
fn ranges(free: &[(usize, usize)], bytes: usize, limit_bytes: usize) -> Vec<Range> {
    let mut before_bytes = 0;
    let sums: Vec<usize> = free
        .iter()
        .map(|&(_, size)| {
            before_bytes += size;
            before_bytes - size
        })
        .collect();
    let free_below = |end: usize| {
        let pieces = free.partition_point(|&(at, _)| at < end);
        let last = pieces.checked_sub(1);
        last.map_or(0, |last| sums[last] + free[last].1.min(end - free[last].0))
    };
    let begins = free.iter().map(|&(at, _)| at);
    let ends = free.iter().filter_map(|&(at, size)| (at + size).checked_sub(bytes));
    let mut ranges: Vec<Range> = begins
        .chain(ends)
        .filter(|offset| offset + bytes <= limit_bytes)
        .map(|offset| {
            let clear_bytes = free_below(offset + bytes) - free_below(offset);
            Range { offset, bytes, clear_bytes, residents: Vec::new(), resident_bytes: 0 }
        })
        .collect();
    ranges.sort_unstable_by_key(|range| (Reverse(range.clear_bytes), range.offset));
    ranges.truncate(MOST_RANGES);
    ranges.sort_unstable_by_key(|range| range.offset);
    ranges.dedup_by_key(|range| range.offset);
    ranges
}

/// Part of a resident lies at `at`: notes it in those of some ranges, in order, that it reaches into.
fn note(ranges: &mut [Range], id: StorageId, at: usize, size: usize) {
    let end = at + size;
    let first = ranges.partition_point(|range| range.offset + range.bytes <= at);
    for range in ranges[first..].iter_mut().take_while(|range| range.offset < end) {
        range.clear_bytes += end.min(range.offset + range.bytes) - at.max(range.offset);
        range.resident_bytes += size;
        if range.residents.last() != Some(&id) {
            range.residents.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is to be moved for so many bytes, and for which range, in memory of a byte per character: `.` is free, a blank cannot be
    /// moved.
    fn least(memory: &str, bytes: usize) -> Option<(String, usize)> {
        let mut at = 0;
        let mut runs = Vec::new();
        for run in memory.as_bytes().chunk_by(|one, next| one == next) {
            runs.push((run[0], at, run.len()));
            at += run.len();
        }
        let free: Vec<(usize, usize)> =
            runs.iter().filter(|run| run.0 == b'.').map(|&(_, at, size)| (at, size)).collect();
        let mut ranges = ranges(&free, bytes, memory.len());
        for &(name, at, size) in runs.iter().filter(|(name, ..)| !b". ".contains(name)) {
            note(&mut ranges, StorageId(name.into()), at, size);
        }
        ranges.retain(|range| range.clear_bytes == bytes);
        let least = ranges.into_iter().min_by_key(|range| (range.resident_bytes, range.offset))?;
        Some((least.residents.iter().map(|id| id.0 as u8 as char).collect(), least.offset))
    }

    #[test]
    fn the_fewest_bytes_are_moved_and_what_cannot_be_is_left() {
        let some = |names: &str, offset| Some((names.to_string(), offset));
        assert_eq!(least("aaa..bbbb...c.", 4), some("c", 9));
        assert_eq!(least("aaa..bbbb...c", 4), some("c", 9));
        assert_eq!(least("aa..b...", 5), some("b", 2), "free at both ends");
        assert_eq!(least("aaaa..b..", 6), some("a", 0), "what is in part in the way is moved too");
        assert_eq!(least("aa..   ..bbb", 4), some("a", 0));
        assert_eq!(least("a.. ..a", 4), None);
        assert_eq!(least("..ab.c", 4), some("ab", 0), "two are smaller than three");
    }
}
