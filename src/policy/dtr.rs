//! Kirisame et al., *Dynamic Tensor Rematerialization*, ICLR 2021, section 3 and appendix C: the storage with the least
//! cost / (size x staleness) is dropped, its cost being that of its op and of all evicted storages that it depends on
//! or that depend on it (`h_DTR`, with the evicted neighbourhood `e*`). Of that, the nearest are counted; or, as
//! `h_DTR_eq`, whole sets of storages that were evicted next to each other (section 4.1).
//!
//! Departures from the paper:
//!
//! - Evicted storages count as long as the pool knows them; the authors' simulator also counts dead ones.
//! - Sets are not split, as there; but a storage that is forgotten takes its cost out of its set.

use super::{Candidate, Knowledge, Reactive, Ways};
use crate::schedule::Eviction;

/// Neighbours counted in each direction: enough that the figures are those of all, and thousands of small storages are
/// looked through in time.
const MOST_NEIGHBOURS: usize = 64;

/// See the module.
#[derive(Debug)]
pub enum Dtr {
    Neighbourhood,
    Components,
}

impl Reactive for Dtr {
    fn pick(&self, _: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        let score = |candidate: &Candidate| {
            let gain = candidate.size_bytes as f64 * candidate.idle_ns as f64;
            if gain > 0.0 { candidate.cost_ns as f64 / gain } else { f64::INFINITY }
        };
        // The last of equals, as its authors' simulator has it.
        let least = candidates
            .map(|candidate| score(&candidate))
            .enumerate()
            .reduce(|least, other| if other.1 <= least.1 { other } else { least });
        least.map(|(index, _)| index)
    }

    fn knows(&self) -> Knowledge {
        match self {
            Dtr::Neighbourhood => Knowledge::Neighbourhood { most: MOST_NEIGHBOURS },
            Dtr::Components => Knowledge::Components,
        }
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        ways.remake_ns.map(|_| Eviction::Drop).or(ways.move_ns.map(|_| Eviction::Offload))
    }
}
