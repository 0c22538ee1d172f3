//! Free memory in pieces too small for a block: what lies between them is moved.
//!
//! Within device memory, that takes a fraction of what it takes to copy bytes to the host or to make them again.

use super::Pool;
use super::sabotage::Sabotage;
use crate::engine::{Lane, aligned};
use crate::error::Error;
use crate::policy::Spot;

/// Ranges that are tried for a block, those first that the fewest bytes lie in.
const MOST_RANGES: usize = 4;

/// What is moved for a block, as a multiple of its size, at the most.
const MOST_PARTS: usize = 4;

/// A part of memory: where it begins, how large it is, and how much of it is in use, all or nothing.
type Piece = (usize, usize, usize);

impl Pool {
    /// Makes a free range of so many bytes, of which there are enough in pieces. `false`: what is in the way has no other place, or is too
    /// much.
    pub(super) fn join(&mut self, bytes: usize) -> Result<bool, Error> {
        // Planted fault: it shows where pages are put side by side.
        if self.settings.sabotage == Some(Sabotage::EarlyMapping) {
            return Ok(false);
        }
        let bytes = aligned(bytes);
        let mut ranges = ranges(&self.pieces(), bytes);
        ranges.retain(|&(used_bytes, _)| used_bytes <= MOST_PARTS * bytes);
        ranges.sort_unstable();
        // Beside ops that need none of it, unless it would wait for other copies.
        let lane = if self.offload_wait_ns() == 0 { Lane::Offload } else { Lane::Compute };
        let peak_bytes = self.device.peak_bytes();
        let mut joined = Ok(false);
        for (_, offset) in ranges.into_iter().take(MOST_RANGES) {
            joined = self.clear(lane, &Spot::At(offset), bytes);
            if !matches!(joined, Ok(false)) {
                break;
            }
        }
        // What is held free meanwhile, and what is on its way, is no more in use than before.
        self.device.reset_peak_to(peak_bytes);
        joined
    }

    /// What is free and what residents lie in, in order. What else is in use is left out: it cannot be moved.
    fn pieces(&self) -> Vec<Piece> {
        let storages = &self.graph.storages;
        let blocks = storages.residents().filter_map(|id| storages[id].device.map(|copy| copy.block));
        let in_use =
            blocks.flat_map(|block| self.device.ranges_of(block)).map(|(at, bytes)| (at, bytes, bytes));
        let free = self.device.free_within(0, self.device.limit_bytes()).into_iter();
        let free = free.map(|(at, bytes)| (at, bytes, 0));
        let mut pieces: Vec<Piece> = in_use.chain(free).collect();
        pieces.sort_unstable();
        pieces
    }
}

/// How much is in use in ranges of so many bytes, and where they begin: of those that end with a piece, and of neighbouring pieces.
fn ranges(pieces: &[Piece], bytes: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut first, mut used_bytes, mut end) = (0, 0, 0);
    for (last, &(at, size, used)) in pieces.iter().enumerate() {
        if at != end {
            (first, used_bytes) = (last, 0);
        }
        used_bytes += used;
        end = at + size;
        while first < last && pieces[first + 1].0 + bytes <= end {
            used_bytes -= pieces[first].2;
            first += 1;
        }
        let (begin, _, first_used) = pieces[first];
        if begin + bytes <= end {
            found.push((used_bytes, if first_used == 0 { begin } else { end - bytes }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece per character, each as long as it is repeated: `.` is free, a blank cannot be moved.
    fn pieces(memory: &str) -> Vec<Piece> {
        let bytes = memory.as_bytes();
        let mut at = 0;
        let runs = bytes.chunk_by(|one, next| one == next).map(|run| {
            let piece = (at, run.len(), if run[0] == b'.' { 0 } else { run.len() });
            at += run.len();
            (run[0], piece)
        });
        runs.filter(|&(name, _)| name != b' ').map(|(_, piece)| piece).collect()
    }

    #[test]
    fn the_fewest_bytes_are_moved_and_what_cannot_be_is_left() {
        let least = |memory: &str, bytes| ranges(&pieces(memory), bytes).into_iter().min();
        assert_eq!(least("aaa..bbbb...c.", 4), Some((1, 9)));
        assert_eq!(least("aaa..bbbb...c", 4), Some((1, 9)));
        assert_eq!(least("aa..b...", 5), Some((1, 2)), "free at both ends");
        assert_eq!(least("aaaa..b..", 6), Some((4, 0)), "what is in part in the way is moved too");
        assert_eq!(least("aa..   ..bbb", 4), Some((2, 0)));
        assert_eq!(least("a.. ..a", 4), None);
    }
}
