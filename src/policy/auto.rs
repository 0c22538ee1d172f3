//! The default. Where no plan decides, this rule weighs costs against gains. The storage goes first that is cheap to have back,
//! large, has not been used for long and is not needed for long. It goes by the cheaper eviction method.

use super::reactive::{CostModel, EvictionCosts, Reactive};
use crate::schedule::{Eviction, WeightedRule};

/// Both times count, since the next use is unknown in the first iteration.
const RULE: WeightedRule = WeightedRule { idle: 0.5, until_next: 0.5 };

/// A storage is small if it is less than this part of the need. Many small storages, scattered over the arena, would have to
/// leave before a large block fits, and each candidate has to be weighed.
const SMALL_PART: usize = 128;

/// See the module.
#[derive(Debug)]
pub struct Auto;

impl Reactive for Auto {
    fn weighs(&self) -> Option<&WeightedRule> {
        Some(&RULE)
    }

    fn prefetches(&self) -> bool {
        RULE.prefetches()
    }

    fn plans(&self) -> bool {
        true
    }

    fn cost_model(&self) -> CostModel {
        RULE.cost_model()
    }

    fn least_bytes(&self, need_bytes: usize) -> usize {
        need_bytes / SMALL_PART
    }

    fn method(&self, costs: EvictionCosts) -> Option<Eviction> {
        RULE.method(costs)
    }
}
