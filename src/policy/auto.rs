//! The default. Where no plan says more, costs are weighed against gains: what is cheap to have back, large, was not used for long
//! and is not needed for long goes first, in the cheaper of the two ways.

use super::{Knowledge, Reactive, Ways};
use crate::schedule::{Eviction, Weighed};

/// Both times count, since the next use is often not known.
const RULE: Weighed = Weighed { idle: 0.5, until_next: 0.5 };

/// A storage of less than this part of what is needed is small: many of them, scattered over the arena, would have to leave before
/// a large block fits, and every storage that may leave is weighed.
const SMALL_PART: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Auto;

impl Reactive for Auto {
    fn weighs(&self) -> Option<&Weighed> {
        Some(&RULE)
    }

    fn prefetches(&self) -> bool {
        RULE.prefetches()
    }

    fn plans(&self) -> bool {
        true
    }

    fn knows(&self) -> Knowledge {
        RULE.knows()
    }

    fn least_bytes(&self, need_bytes: usize) -> usize {
        need_bytes / SMALL_PART
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        RULE.how(ways)
    }
}
