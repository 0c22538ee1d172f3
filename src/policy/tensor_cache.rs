//! Wang et al., *SuperNeurons: Dynamic GPU Memory Management for Training Deep Neural Networks*, PPoPP 2018,
//! section 3.3.2: the tensor cache. Tensors stay until memory is short; then the least recently used is offloaded.

use super::{Candidate, Eviction, Reactive};

/// See the module.
#[derive(Debug)]
pub struct TensorCache;

impl Reactive for TensorCache {
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<(usize, Eviction)> {
        let movable = candidates.enumerate().find(|(_, candidate)| candidate.movable);
        movable.map(|(index, _)| (index, Eviction::Offload))
    }
}
