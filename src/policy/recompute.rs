//! Drops before it offloads: the limit case of rematerialization, for comparison and for very slow links.

use super::reactive::{Candidate, EvictionCosts, Reactive};
use crate::schedule::Eviction;

/// See the module.
#[derive(Debug)]
pub struct Recompute;

impl Reactive for Recompute {
    fn pick(&self, _: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        candidates.next().map(|_| 0)
    }

    fn method(&self, costs: EvictionCosts) -> Option<Eviction> {
        costs.rematerialize_ns.map(|_| Eviction::Drop).or(costs.move_ns.map(|_| Eviction::Offload))
    }
}
