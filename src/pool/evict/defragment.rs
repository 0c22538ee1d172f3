//! Defragmentation: if free memory is in pieces too small for a block, the storages between them are moved.
//!
//! Moves within device memory take a fraction of the time of copies to the host or of rematerialization.

use crate::config::PlantedFault;
use crate::engine::{Lane, aligned};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::ResidentFilter;

/// The maximum number of ranges that are tried for a block. Ranges with the fewest bytes in use come first.
const MAX_RANGES: usize = 4;

/// The maximum number of bytes moved for a block, as a multiple of its size.
const MAX_PARTS: usize = 4;

/// A part of memory that is free, or that a resident lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    offset: usize,
    bytes: usize,
    resident: Option<StorageId>,
}

impl Piece {
    fn end(&self) -> usize {
        self.offset + self.bytes
    }

    fn used_bytes(&self) -> usize {
        if self.resident.is_some() { self.bytes } else { 0 }
    }
}

impl Pool {
    /// Makes a free range of `bytes` bytes out of smaller free pieces. Returns `false` if the storages in the way are
    /// too large, or if there is no other place for them.
    pub(in crate::pool) fn defragment(&mut self, bytes: usize) -> Result<bool, Error> {
        // The planted fault shows where pages are combined, which a defragmentation would avoid.
        if self.settings.planted_fault == Some(PlantedFault::EarlyMapping) {
            return Ok(false);
        }
        let bytes = aligned(bytes);
        let pieces = self.pieces();
        let mut ranges = ranges(&pieces, bytes);
        ranges.retain(|&(used_bytes, _)| used_bytes <= MAX_PARTS * bytes);
        ranges.sort_unstable();
        // The offload lane runs beside ops that do not need the storages. It is not used if it is busy with other
        // copies.
        let lane = if self.offload_wait_ns() == 0 { Lane::Offload } else { Lane::Compute };
        let peaks_bytes = [self.memory.device.peak_bytes(), self.memory.peak_with_host_bytes];
        let mut defragmented = Ok(false);
        for (_, offset) in ranges.into_iter().take(MAX_RANGES) {
            defragmented = self.clear_ranges(lane, &[(offset, bytes)], residents_in(&pieces, offset, bytes));
            if !matches!(defragmented, Ok(false)) {
                break;
            }
        }
        // The moves hold both the old and the new blocks for a while. The peaks do not count that.
        self.memory.reset_peaks_to(peaks_bytes);
        defragmented
    }

    /// The free pieces and the residents' pieces, by address. Other blocks in use are left out, because they cannot be
    /// moved.
    fn pieces(&self) -> Vec<Piece> {
        let storages = &self.graph.storages;
        let free = self.memory.device.free_within(0, self.memory.device.limit_bytes()).into_iter();
        let mut pieces: Vec<Piece> =
            free.map(|(offset, bytes)| Piece { offset, bytes, resident: None }).collect();
        for id in storages.in_any_order(ResidentFilter::default()) {
            let block = storages[id].copies.device.expect("it is resident").block;
            let mut add = |offset, bytes| pieces.push(Piece { offset, bytes, resident: Some(id) });
            self.memory.device.each_range(block, &mut add);
        }
        pieces.sort_unstable_by_key(|piece| piece.offset);
        pieces
    }
}

/// Ranges of `bytes` bytes, as pairs of the bytes in use and the offset. Each lies in adjacent pieces and ends where
/// one of them ends, or begins where a free one begins.
fn ranges(pieces: &[Piece], bytes: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut first, mut used_bytes, mut end) = (0, 0, 0);
    for (last, piece) in pieces.iter().enumerate() {
        if piece.offset != end {
            (first, used_bytes) = (last, 0);
        }
        used_bytes += piece.used_bytes();
        end = piece.end();
        while first < last && pieces[first + 1].offset + bytes <= end {
            used_bytes -= pieces[first].used_bytes();
            first += 1;
        }
        let begin = pieces[first].offset;
        if begin + bytes <= end {
            found.push((used_bytes, if pieces[first].resident.is_none() { begin } else { end - bytes }));
        }
    }
    found
}

/// The residents that lie in a range at least in part.
fn residents_in(pieces: &[Piece], offset: usize, bytes: usize) -> Vec<StorageId> {
    let first = pieces.partition_point(|piece| piece.end() <= offset);
    let within = pieces[first..].iter().take_while(|piece| piece.offset < offset + bytes);
    let mut residents: Vec<StorageId> = within.filter_map(|piece| piece.resident).collect();
    residents.sort_unstable();
    residents.dedup();
    residents
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a piece of each run of equal characters: `.` is free, a blank cannot be moved, and other characters name
    /// storages.
    fn pieces(memory: &str) -> Vec<Piece> {
        let mut at = 0;
        let runs = memory.as_bytes().chunk_by(|one, next| one == next).map(|run| {
            let resident = (run[0] != b'.').then(|| StorageId(run[0].into()));
            let piece = Piece { offset: at, bytes: run.len(), resident };
            at += run.len();
            (run[0], piece)
        });
        runs.filter(|&(name, _)| name != b' ').map(|(_, piece)| piece).collect()
    }

    #[test]
    fn the_range_with_the_fewest_bytes_in_use_is_found() {
        let least = |memory: &str, bytes| ranges(&pieces(memory), bytes).into_iter().min();
        assert_eq!(least("aaa..bbbb...c.", 4), Some((1, 9)));
        assert_eq!(least("aaa..bbbb...c", 4), Some((1, 9)));
        assert_eq!(least("aa..b...", 5), Some((1, 2)), "free at both ends");
        assert_eq!(least("aaaa..b..", 6), Some((4, 0)), "a resident that overlaps in part counts as a whole");
        assert_eq!(least("aa..   ..bbb", 4), Some((2, 0)));
        assert_eq!(least("a.. ..a", 4), None);
    }

    #[test]
    fn residents_of_a_range_are_listed_once() {
        let named = |offset, bytes| {
            let residents = residents_in(&pieces("aaa..bb.a"), offset, bytes).into_iter();
            residents.map(|StorageId(name)| name as u8 as char).collect::<String>()
        };
        assert_eq!(named(0, 9), "ab");
        assert_eq!(named(3, 2), "");
        assert_eq!(named(2, 4), "ab");
    }
}
