//! Nothing stays: the floor that other policies are measured from, in device memory the least, in traffic the most.

use super::auto::Auto;
use super::{Candidate, Eviction, Reactive, Ways};

/// See the module.
#[derive(Debug)]
pub struct EvictAll;

impl Reactive for EvictAll {
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        Auto.pick(need_bytes, candidates)
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
