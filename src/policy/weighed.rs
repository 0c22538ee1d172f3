//! Costs against gains: what is cheap to have back, large, and not needed for long goes first. For plans, which know the
//! future; without that, what was not used for long is taken to stay so.

use super::{Candidate, Eviction, Knowledge, Reactive, Ways};

/// How much time counts, as powers: with `idle` 1 and `until_next` 0 this is `h_DTR` of [`dtr`](super::dtr); with 0 and 1 it
/// is Belady's rule with costs; in between lies what is best, and that differs from program to program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weighed {
    /// Of the time since the last use.
    pub idle: f64,
    /// Of the ops until the next.
    pub until_next: f64,
}

/// Ops until the next use that count as many, and so do all beyond.
const MOST_OPS: f64 = 1e12;
/// A storage of less than this part of what is needed is not worth a copy or an op of its own.
const SMALL_PART: usize = 1024;

impl Weighed {
    fn score(&self, candidate: &Candidate) -> f64 {
        let until_next = candidate.next_use_ops.map_or(1.0, |ops| (ops as f64).min(MOST_OPS));
        let idle = (candidate.idle_ns as f64).max(1.0).powf(self.idle);
        // One nanosecond, so that of what costs nothing the one goes that is needed last.
        (candidate.cost_ns as f64 + 1.0)
            / (candidate.size_bytes as f64 * idle * until_next.powf(self.until_next))
    }
}

impl Reactive for Weighed {
    fn pick(&self, _: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        let scored = candidates.map(|candidate| (candidate.turn, self.score(&candidate))).enumerate();
        scored.reduce(|least, other| if other.1 < least.1 { other } else { least }).map(|(index, _)| index)
    }

    fn least_bytes(&self, need_bytes: usize) -> usize {
        need_bytes / SMALL_PART
    }

    fn knows(&self) -> Knowledge {
        Knowledge::Neighbourhood { most: 16 }
    }

    fn prefetches(&self) -> bool {
        true
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        super::auto::Auto::default().how(ways)
    }
}
