//! Drop first: the limit of rematerialisation without a host tier. For comparison, and where the link is very slow.

use super::{Candidate, Eviction, Reactive};

/// See the module.
#[derive(Debug)]
pub struct Recompute;

impl Reactive for Recompute {
    fn weighs_recompute(&self) -> bool {
        true
    }

    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<(usize, Eviction)> {
        let candidate = candidates.next()?;
        let drop = candidate.remake_ns.is_some() && !candidate.clean;
        Some((0, if drop { Eviction::Drop } else { Eviction::Offload }))
    }
}
