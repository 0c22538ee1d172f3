//! The peer tier: memory of other devices of the machine that the program does not use.

use std::str::FromStr;

use super::Props;
use super::amounts::{bytes, rate, split_rate};

/// The largest piece that is taken at once.
const MAX_SLAB_BYTES: usize = 256 << 20;

/// Memory of another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    /// The device, of the same kind as the one that borrows.
    pub index: u16,
    /// The most bytes of it that are used.
    pub limit_bytes: usize,
}

/// A peer tier: offloaded bytes in the memory of other devices.
///
/// ```
/// use burn_overcommit::engine::PeerTier;
///
/// let peers: PeerTier = "1:40GiB, 2:20GiB @ 200GB/s".parse().unwrap();
/// assert_eq!((peers.devices[1].index, peers.limit_bytes()), (2, 60 << 30));
/// assert_eq!(peers.bytes_per_second, Some(200e9));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PeerTier {
    /// The devices, in the order in which their memory is taken.
    pub devices: Vec<PeerMemory>,
    /// The assumed bandwidth, the same for both ways; `None` if it is that of [`Props::peer_bytes_per_second`].
    pub bytes_per_second: Option<f64>,
}

impl PeerTier {
    /// The bytes of all devices that are used at most: whole slabs of each.
    pub fn limit_bytes(&self) -> usize {
        let slab_bytes = self.slab_bytes().max(1);
        self.devices.iter().map(|device| device.limit_bytes / slab_bytes * slab_bytes).sum()
    }

    /// The size of the pieces in which memory is taken as it is needed, none of which lies on two devices.
    pub fn slab_bytes(&self) -> usize {
        self.devices.iter().map(|device| device.limit_bytes).fold(MAX_SLAB_BYTES, usize::min)
    }

    /// Bytes that go one way per second.
    pub fn rate(&self, props: &Props) -> f64 {
        self.bytes_per_second.or(props.peer_bytes_per_second).unwrap_or_else(|| props.link_bytes_per_second())
    }

    /// Predicted time to copy `bytes`, one way. In nanoseconds.
    pub fn copy_ns(&self, props: &Props, bytes: usize) -> u64 {
        props.overhead_ns + (bytes as f64 / self.rate(props) * 1e9) as u64
    }
}

impl FromStr for PeerMemory {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (index, limit) = text.split_once(':').ok_or(())?;
        let index = index.trim().parse().map_err(|_| ())?;
        let limit_bytes = bytes(limit).filter(|&bytes| bytes > 0).ok_or(())?;
        Ok(PeerMemory { index, limit_bytes })
    }
}

/// The error says what was expected instead.
impl FromStr for PeerTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            String::from(
                "INDEX:BYTES of other devices of its kind, such as 1:40GiB,2:40GiB, with @RATE such as @200GB/s if that is known",
            )
        };
        let (devices, speed) = split_rate(text);
        let bytes_per_second = match speed {
            Some(speed) => Some(rate(speed).ok_or_else(expected)?),
            None => None,
        };
        let devices: Result<Vec<PeerMemory>, ()> = devices.split(',').map(str::parse).collect();
        let devices = devices.map_err(|()| expected())?;
        let is_twice = |at: usize| devices[..at].iter().any(|other| other.index == devices[at].index);
        if (0..devices.len()).any(is_twice) {
            return Err(expected());
        }
        Ok(PeerTier { devices, bytes_per_second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_devices_with_amounts_and_perhaps_a_rate() {
        let one = PeerMemory { index: 1, limit_bytes: 1024 };
        let parsed = |text: &str| text.parse::<PeerTier>();
        let two = "1:1000MiB,2:300MiB".parse::<PeerTier>().unwrap();
        assert_eq!((two.slab_bytes(), two.limit_bytes()), (256 << 20, (768 + 256) << 20));
        assert_eq!("1:5KiB,2:3KiB".parse::<PeerTier>().unwrap().limit_bytes(), 6 << 10);
        assert_eq!(parsed("1:1KiB"), Ok(PeerTier { devices: vec![one], bytes_per_second: None }));
        for wrong in ["", "1", "1:", "cuda:1:4GiB", "1:0", "1:1KiB,1:1KiB", "1:1KiB@fast", "1:1KiB,"] {
            assert!(parsed(wrong).unwrap_err().contains("1:40GiB,2:40GiB"), "{wrong}");
        }
    }
}
