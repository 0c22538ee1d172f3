//! Kirisame et al., *Dynamic Tensor Rematerialization*, ICLR 2021, section 3 and appendix C. DTR drops the storage with the
//! least cost / (size x staleness). The cost is that of its op and of all evicted storages that it depends on or that depend on
//! it (`h_DTR`, with the evicted neighbourhood `e*`). Here the nearest of them count; or whole sets of evicted neighbours, as
//! in `h_DTR_eq` (section 4.1).
//!
//! Departures from the paper:
//!
//! - Evicted storages count as long as the pool knows them. The authors' simulator also counts dead ones.
//! - As in the paper, sets are not split. But a storage that is forgotten takes its cost out of its set.

use super::reactive::{Candidate, CostModel, EvictionCosts, Reactive};
use crate::schedule::Eviction;

/// How many neighbours count in each direction. This many give the same figures as all, and few enough for thousands of small
/// storages.
const MAX_NEIGHBOURS: usize = 64;

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
        // The last of equal candidates, as in the authors' simulator.
        let least = candidates
            .map(|candidate| score(&candidate))
            .enumerate()
            .reduce(|least, other| if other.1 <= least.1 { other } else { least });
        least.map(|(index, _)| index)
    }

    fn cost_model(&self) -> CostModel {
        match self {
            Dtr::Neighbourhood => CostModel::Neighbourhood { most: MAX_NEIGHBOURS },
            Dtr::Components => CostModel::Components,
        }
    }

    fn method(&self, costs: EvictionCosts) -> Option<Eviction> {
        costs.rematerialize_ns.map(|_| Eviction::Drop).or(costs.move_ns.map(|_| Eviction::Offload))
    }
}
