//! Evicts everything at once. This needs the least device memory and causes the most traffic, so other policies are compared
//! with it.

use super::auto::Auto;
use super::reactive::{EvictionCosts, Reactive};
use crate::schedule::{Eviction, WeightedRule};

/// See the module.
#[derive(Debug)]
pub struct EvictAll;

impl Reactive for EvictAll {
    fn weighs(&self) -> Option<&WeightedRule> {
        Auto.weighs()
    }

    fn method(&self, costs: EvictionCosts) -> Option<Eviction> {
        Auto.method(costs)
    }

    fn least_bytes(&self, need_bytes: usize) -> usize {
        Auto.least_bytes(need_bytes)
    }

    fn evicts_at_once(&self) -> bool {
        true
    }
}
