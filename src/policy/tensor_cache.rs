//! Wang et al., *SuperNeurons: Dynamic GPU Memory Management for Training Deep Neural Networks*, PPoPP 2018, section 3.3.2: the
//! tensor cache. Tensors stay until memory is short. Then the least recently used is offloaded.

use super::reactive::{Candidate, EvictionCosts, Reactive};
use crate::schedule::Eviction;

/// See the module.
#[derive(Debug)]
pub struct TensorCache;

impl Reactive for TensorCache {
    fn pick(&self, _: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        candidates.next().map(|_| 0)
    }

    fn method(&self, costs: EvictionCosts) -> Option<Eviction> {
        costs.move_ns.map(|_| Eviction::Offload)
    }
}
