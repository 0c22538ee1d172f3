//! Nothing stays: the floor that other policies are measured from, in device memory the least, in traffic the most.

use super::auto::Auto;
use super::{Reactive, Ways};
use crate::schedule::{Eviction, Weighed};

/// See the module.
#[derive(Debug)]
pub struct EvictAll;

impl Reactive for EvictAll {
    fn weighs(&self) -> Option<&Weighed> {
        Auto.weighs()
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        Auto.how(ways)
    }

    fn least_bytes(&self, need_bytes: usize) -> usize {
        Auto.least_bytes(need_bytes)
    }

    fn evicts_at_once(&self) -> bool {
        true
    }
}
