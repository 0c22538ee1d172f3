//! Keys for random ops.

use std::sync::atomic::{AtomicU64, Ordering};

/// The seed until one is set: fixed, so that a program without a seed is repeatable too.
const DEFAULT_SEED: u64 = 0x6f76_6572_636f_6d6d;

/// A sequence of keys, which a seed determines.
#[derive(Debug)]
pub struct RandomKeys {
    seed: AtomicU64,
    /// How many keys were drawn since the seed was set.
    drawn: AtomicU64,
}

impl Default for RandomKeys {
    fn default() -> Self {
        RandomKeys { seed: AtomicU64::new(DEFAULT_SEED), drawn: AtomicU64::new(0) }
    }
}

impl RandomKeys {
    /// Begins the sequence of a seed.
    pub fn start(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
        self.drawn.store(0, Ordering::Relaxed);
    }

    /// The next key.
    pub fn next(&self) -> u64 {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        mix(self.seed.load(Ordering::Relaxed).wrapping_add(drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): neighbouring inputs give unrelated outputs.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
