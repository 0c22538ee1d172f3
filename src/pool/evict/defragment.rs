//! Defragmentation: if free memory is in pieces too small for a block, the storages between them are moved.
//!
//! Moves within device memory take a fraction of the time of copies to the host or of rematerialization.

use std::cmp::Reverse;

use crate::config::PlantedFault;
use crate::engine::{Lane, aligned};
use crate::error::Error;
use crate::pool::Pool;

/// The maximum number of ranges that are tried for a block. Ranges with the fewest bytes to move come first.
const MAX_RANGES: usize = 4;

/// The maximum number of bytes moved for a block, as a multiple of its size.
const MAX_PARTS: usize = 4;

impl Pool {
    /// Makes a free range of `bytes` bytes out of smaller free pieces. Returns `false` if the storages in the way have more than
    /// `movable_bytes` or are too large, or if there is no other place for them.
    pub(in crate::pool) fn defragment(&mut self, bytes: usize, movable_bytes: usize) -> Result<bool, Error> {
        // The planted fault shows where pages are combined, which a defragmentation would avoid.
        if self.settings.planted_fault == Some(PlantedFault::EarlyMapping) {
            return Ok(false);
        }
        let bytes = aligned(bytes);
        let to_clear = self.cheapest_ranges(bytes, movable_bytes.min(MAX_PARTS * bytes));
        // The offload lane runs beside ops that do not need the storages. It is not used if it is busy with other
        // copies.
        let lane = if self.offload_wait_ns() == 0 { Lane::Offload } else { Lane::Compute };
        let peaks_bytes = [self.memory.device.peak_bytes(), self.memory.peak_with_host_bytes];
        let mut defragmented = Ok(false);
        for (_, offset) in to_clear {
            defragmented = self.clear_ranges(lane, &[(offset, bytes)]);
            if !matches!(defragmented, Ok(false)) {
                break;
            }
        }
        // The moves hold both the old and the new blocks for a while. The peaks do not count that.
        self.memory.reset_peaks_to(peaks_bytes);
        defragmented
    }

    /// The ranges of `bytes` bytes with the fewest bytes to move, as pairs of these and the offset.
    fn cheapest_ranges(&self, bytes: usize, movable_bytes: usize) -> Vec<(usize, usize)> {
        let limit_bytes = self.memory.device.limit_bytes();
        let mut cheapest: Vec<(usize, usize)> = Vec::new();
        let free = self.memory.device.free_within(0, limit_bytes);
        for (free_bytes, offset) in ranges(&free, bytes, limit_bytes) {
            // All that is not free has to move, and in later ranges less is free.
            let most_bytes = match cheapest.get(MAX_RANGES - 1) {
                Some(&(moved_bytes, _)) => moved_bytes.min(movable_bytes),
                None => movable_bytes,
            };
            if bytes - free_bytes > most_bytes {
                break;
            }
            let moved_bytes =
                self.bytes_to_move(offset, bytes, free_bytes).filter(|&moved| moved <= most_bytes);
            cheapest.extend(moved_bytes.map(|moved_bytes| (moved_bytes, offset)));
            cheapest.sort_unstable();
            cheapest.truncate(MAX_RANGES);
        }
        cheapest
    }

    /// The bytes of the residents in a range, which has `free_bytes` free; `None` if other blocks lie in it, which cannot be moved.
    fn bytes_to_move(&self, offset: usize, bytes: usize, free_bytes: usize) -> Option<usize> {
        let (mut known_bytes, mut moved_bytes) = (free_bytes, 0);
        for (id, within_bytes) in self.residents_within(offset, bytes) {
            known_bytes += within_bytes;
            moved_bytes += self.graph.storages[id].copies.device.map_or(0, |copy| copy.block.bytes);
        }
        (known_bytes == bytes).then_some(moved_bytes)
    }
}

/// Ranges of `bytes` bytes below a limit, as pairs of the free bytes in them and the offset, the most free bytes first. Each begins
/// where a free piece begins, or ends where one ends. `free` has the free pieces by address.
fn ranges(free: &[(usize, usize)], bytes: usize, limit_bytes: usize) -> Vec<(usize, usize)> {
    // By piece, the free bytes before it.
    let before: Vec<usize> =
        free.iter().scan(0, |sum, &(_, size)| Some(std::mem::replace(sum, *sum + size))).collect();
    let free_below = |end: usize| {
        let last = free.partition_point(|&(offset, _)| offset < end).checked_sub(1);
        last.map_or(0, |last| before[last] + free[last].1.min(end - free[last].0))
    };
    let begins = free.iter().map(|&(offset, _)| offset);
    let ends = free.iter().filter_map(|&(offset, size)| (offset + size).checked_sub(bytes));
    let mut found: Vec<(usize, usize)> = begins
        .chain(ends)
        .filter(|&begin| begin + bytes <= limit_bytes)
        .map(|begin| (free_below(begin + bytes) - free_below(begin), begin))
        .collect();
    found.sort_unstable_by_key(|&(free_bytes, begin)| (Reverse(free_bytes), begin));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The free pieces of a memory in which `.` is free.
    fn free(memory: &str) -> Vec<(usize, usize)> {
        let mut at = 0;
        let runs = memory.as_bytes().chunk_by(|one, next| one == next).map(|run| {
            at += run.len();
            (run[0] == b'.', (at - run.len(), run.len()))
        });
        runs.filter_map(|(is_free, piece)| is_free.then_some(piece)).collect()
    }

    #[test]
    fn the_range_with_the_most_free_bytes_is_found() {
        let most = |memory: &str, bytes| ranges(&free(memory), bytes, memory.len()).first().copied();
        assert_eq!(most("aaa..bbbb...c.", 4), Some((3, 8)), "it ends where a piece ends");
        assert_eq!(most("aa..b...", 5), Some((4, 2)), "it begins where a piece begins");
        assert_eq!(most("aaaa..b..", 6), Some((4, 3)));
        assert_eq!(most("..aaa", 6), None);
        assert_eq!(most("aaaaa", 2), None);
    }
}
