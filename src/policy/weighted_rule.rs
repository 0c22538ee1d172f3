//! A rule that weighs costs against gains: the storage goes first that is cheap to have back, large, and not needed for long.
//! If the future is unknown, a storage that was not used for long is expected to stay unused.

use super::reactive::{Candidate, CostModel, EvictionCosts, Reactive};
use crate::schedule::{Eviction, WeightedRule};

/// A larger number of ops until the next use counts as this many.
const MAX_OPS: f64 = 1e12;
/// A storage of less than this part of the need is not worth a copy or an op of its own.
const SMALL_PART: usize = 1024;

impl WeightedRule {
    /// The gain of evicting a storage.
    pub fn gain(&self, candidate: &Candidate) -> f64 {
        let until_next = candidate.next_use_ops.map_or(1.0, |ops| (ops as f64).min(MAX_OPS));
        let idle = power((candidate.idle_ns as f64).max(1.0), self.idle);
        candidate.size_bytes as f64 * idle * power(until_next, self.until_next)
    }

    /// The weight of a candidate. The candidate with the least weight is evicted.
    pub fn weight(&self, cost_ns: u64, gain: f64) -> f64 {
        // A nanosecond is added so that among storages that cost nothing the one goes that is needed last.
        (cost_ns as f64 + 1.0) / gain
    }
}

/// A power. The exponents that plans are searched with take no logarithm, since every storage is weighed at every eviction.
fn power(value: f64, exponent: f64) -> f64 {
    match exponent {
        0.0 => 1.0,
        0.25 => value.sqrt().sqrt(),
        0.5 => value.sqrt(),
        1.0 => value,
        _ => value.powf(exponent),
    }
}

impl Reactive for WeightedRule {
    fn weighs(&self) -> Option<&WeightedRule> {
        Some(self)
    }

    fn least_bytes(&self, need_bytes: usize) -> usize {
        need_bytes / SMALL_PART
    }

    fn cost_model(&self) -> CostModel {
        CostModel::Neighbourhood { most: 16 }
    }

    fn prefetches(&self) -> bool {
        true
    }

    fn method(&self, costs: EvictionCosts) -> Option<Eviction> {
        match (costs.move_ns, costs.rematerialize_ns) {
            (Some(move_ns), Some(rematerialize_ns)) if rematerialize_ns < move_ns => Some(Eviction::Drop),
            (Some(_), _) => Some(Eviction::Offload),
            (None, Some(_)) => Some(Eviction::Drop),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_way_is_taken() {
        let method = |move_ns, rematerialize_ns| {
            WeightedRule::default().method(EvictionCosts { move_ns, rematerialize_ns })
        };
        assert_eq!(method(Some(100), Some(99)), Some(Eviction::Drop));
        assert_eq!(method(Some(100), Some(100)), Some(Eviction::Offload));
        assert_eq!(method(Some(100), None), Some(Eviction::Offload));
        assert_eq!(method(None, Some(1000)), Some(Eviction::Drop));
        assert_eq!(method(None, None), None);
    }

    #[test]
    fn powers_are_those_of_the_library() {
        for exponent in [0.0, 0.25, 0.5, 0.7, 1.0, 2.0] {
            for value in [1.0f64, 3.0, 1e12] {
                assert!((power(value, exponent) / value.powf(exponent) - 1.0).abs() < 1e-12);
            }
        }
    }
}
