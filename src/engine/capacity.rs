//! Bounds the memory that an engine maps, tier by tier.

use super::{MapError, Props, Tier};

/// Bytes mapped, by tier.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    mapped_bytes: [usize; Tier::ALL.len()],
}

impl Capacity {
    /// Counts memory of a tier as mapped, unless that exceeds the tier.
    pub fn take(&mut self, props: &Props, tier: Tier, bytes: usize) -> Result<(), MapError> {
        let (capacity_bytes, mapped_bytes) =
            (props.capacity_bytes(tier), &mut self.mapped_bytes[tier as usize]);
        let room_bytes = capacity_bytes - *mapped_bytes;
        if bytes > room_bytes {
            let reason = format!("{room_bytes} bytes of {capacity_bytes} are left");
            return Err(MapError::Exhausted(reason));
        }
        *mapped_bytes += bytes;
        Ok(())
    }

    /// Counts memory of a tier as unmapped.
    pub fn give(&mut self, tier: Tier, bytes: usize) {
        self.mapped_bytes[tier as usize] -= bytes;
    }
}
