//! How long pieces of work take, by events before and after them: every launch that was never timed, and one in eight
//! of the others, of at most 64 pieces under way. They are read when later work is submitted. A failure here only
//! leaves a piece untimed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::driver::{Called, Context, Event, Stream};
use crate::engine::Instruction;
use crate::engine::link::Link;

/// Pieces of a lane that can be timed at once.
const MAX_TIMED: usize = 64;
/// Of so many pieces that were timed before, one is.
const ONE_OF: u64 = 8;

/// A piece of work that can be timed.
#[derive(Clone, Debug)]
pub(super) enum Timed {
    Launch(Arc<Instruction>),
    /// Between tiers.
    Copy {
        bytes: usize,
    },
    /// What no time is wanted of.
    Nothing,
}

impl Timed {
    /// Whether piece number `sequence` is to be timed: what never was, and some of the others, whatever their period.
    fn is_wanted(&self, sequence: u64) -> bool {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
        let is_chosen = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (ONE_OF - 1) == 0;
        match self {
            Timed::Launch(instruction) => is_chosen || instruction.measured.ns().is_none(),
            Timed::Copy { .. } => is_chosen || sequence < ONE_OF,
            Timed::Nothing => false,
        }
    }
}

/// Work on as many bytes is likely to be waited for by itself, since such storages are worth moving.
const LARGE_BYTES: usize = 256 << 10;

impl Timed {
    /// Whether someone is likely to wait for the piece, and not only for all of the lane: another lane, that copies what a launch
    /// made, or that runs on what was copied.
    pub fn is_waited_for(&self) -> bool {
        let Timed::Launch(instruction) = self else { return true };
        let mut views = instruction.views.iter().chain(&instruction.outputs);
        views.any(|view| view.size_bytes() >= LARGE_BYTES)
    }
}

/// Events before and after a piece.
type Pair = (Event, Event);

/// The pieces of a lane that are being timed.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pending: VecDeque<(Timed, Pair)>,
    spare: Vec<Pair>,
}

impl Samples {
    /// Notes where a piece begins that is to be timed. A failure leaves it untimed: nothing depends on it.
    pub fn begin(
        &mut self,
        context: &Arc<Context>,
        stream: &Stream,
        what: &Timed,
        sequence: u64,
    ) -> Option<Pair> {
        if !what.is_wanted(sequence) || (self.spare.is_empty() && self.pending.len() >= MAX_TIMED) {
            return None;
        }
        let new = || -> Called<Pair> { Ok((Event::new(context, true)?, Event::new(context, true)?)) };
        let pair = self.spare.pop().map_or_else(|| new().ok(), Some)?;
        pair.0.record(stream).ok()?;
        Some(pair)
    }

    /// Notes where it ends.
    pub fn end(&mut self, pair: Pair, stream: &Stream, what: Timed) {
        if pair.1.record(stream).is_ok() {
            self.pending.push_back((what, pair));
        }
    }

    /// Tells what the pieces took that are done.
    pub fn collect(&mut self, link: &Link) {
        while self.pending.front().is_some_and(|(_, (_, end))| end.reached()) {
            let Some((what, pair)) = self.pending.pop_front() else { return };
            if let Ok(ns) = pair.1.ns_since(&pair.0) {
                match what {
                    Timed::Launch(instruction) => instruction.measured.note(ns),
                    Timed::Copy { bytes } => link.note(bytes, ns),
                    Timed::Nothing => {}
                }
            }
            self.spare.push(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_eight_is_timed_at_every_place_of_an_iteration() {
        let copy = Timed::Copy { bytes: 1 };
        for period in [1, 7, 8, 64, 1000] {
            let count = (0..1000u64).filter(|n| copy.is_wanted(1000 + n * period)).count();
            assert!((60..=200).contains(&count), "{count} of 1000, every {period}");
        }
        assert!(copy.is_wanted(1) && !Timed::Nothing.is_wanted(1));
    }
}
