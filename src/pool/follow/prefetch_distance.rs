//! How early storages are fetched.

use crate::schedule::MAX_PREFETCH_DISTANCE;

/// How long before its use a storage is fetched where no schedule says that, in parts of the time that its copy takes: halved by
/// every storage that is evicted before it was used, and grows again with those that were.
#[derive(Debug)]
pub struct Ahead(pub u64);

impl Ahead {
    pub fn used(&mut self) {
        self.0 = (self.0 + 1).min(MAX_PREFETCH_DISTANCE);
    }

    pub fn wasted(&mut self) {
        self.0 /= 2;
    }
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead(MAX_PREFETCH_DISTANCE)
    }
}
