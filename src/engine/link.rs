//! The measured bandwidth of copies between tiers.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of bytes over which the mean is taken; older copies count less and less.
const MAX_BYTES: u64 = 256 << 20;

/// The mean bandwidth of copies.
#[derive(Debug, Default)]
pub(super) struct Link {
    bytes: AtomicU64,
    ns: AtomicU64,
}

impl Link {
    /// Adds the time of a copy. Two copies that end at once may be counted as one, which only affects the mean.
    pub fn note(&self, bytes: usize, took_ns: u64) {
        let all = self.bytes.load(Ordering::Relaxed) + bytes as u64;
        let ns = self.ns.load(Ordering::Relaxed) + took_ns;
        let part = if all > MAX_BYTES { 2 } else { 1 };
        self.bytes.store(all / part, Ordering::Relaxed);
        self.ns.store(ns / part, Ordering::Relaxed);
    }

    /// Bytes per second; `None` if there were no copies.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let (bytes, ns) = (self.bytes.load(Ordering::Relaxed), self.ns.load(Ordering::Relaxed));
        (bytes > 0 && ns > 0).then(|| bytes as f64 / ns as f64 * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_becomes_slower_is_soon_known_to_be() {
        let link = Link::default();
        assert_eq!(link.bytes_per_second(), None);
        link.note(1 << 20, 1_000_000);
        assert_eq!(link.bytes_per_second(), Some((1u64 << 20) as f64 * 1e3));
        (0..1000).for_each(|_| link.note(1 << 20, 1_000_000));
        (0..1000).for_each(|_| link.note(1 << 20, 4_000_000));
        let slow = (1u64 << 20) as f64 * 250.0;
        assert!(link.bytes_per_second().is_some_and(|found| (found / slow - 1.0).abs() < 0.1));
    }
}
