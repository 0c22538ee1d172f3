//! Drop first: the limit of rematerialisation. For comparison, and where the link is very slow.

use super::{Candidate, Reactive, Ways};
use crate::schedule::Eviction;

/// See the module.
#[derive(Debug)]
pub struct Recompute;

impl Reactive for Recompute {
    fn pick(&self, _: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        candidates.next().map(|_| 0)
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        ways.remake_ns.map(|_| Eviction::Drop).or(ways.move_ns.map(|_| Eviction::Offload))
    }
}
