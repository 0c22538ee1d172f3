//! The disk tier: a file that nobody else sees, read and written past the system's cache with many requests in flight.

pub(super) mod faults;
#[cfg(all(target_os = "linux", any(feature = "host", feature = "cuda")))]
mod file;
#[cfg(all(target_os = "linux", any(feature = "host", feature = "cuda")))]
mod requests;
#[cfg(any(feature = "host", feature = "cuda"))]
mod store;

use std::path::PathBuf;
use std::sync::Arc;

#[cfg(any(feature = "host", feature = "cuda"))]
pub(super) use store::DiskStore;

use super::amounts::{bytes, rate, split_rate};
use faults::DiskFaults;

/// Spans of the disk tier, and of the host memory that is copied from and to it, begin at multiples of this and are
/// multiples of it long, since direct input and output wants that of every file system.
pub const DISK_ALIGN_BYTES: usize = 4096;

/// A disk tier: where offloaded bytes go when the host tier is full.
///
/// ```
/// use burn_overcommit::engine::DiskTier;
///
/// let disk: DiskTier = "/fast/spill:200GiB@7GB/s".parse().unwrap();
/// assert_eq!(disk.limit_bytes, 200 << 30);
/// assert_eq!(disk.copy_ns(7_000_000_000), 1_000_000_000 + disk.overhead_ns);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DiskTier {
    /// The folder of the file. A simulation has none.
    pub folder: PathBuf,
    /// The most bytes that the file takes.
    pub limit_bytes: usize,
    /// The assumed bandwidth, the same for reading and for writing. Decisions use it until a plan is made by a measured one.
    pub bytes_per_second: f64,
    /// The assumed time of a request beyond that of its bytes.
    pub overhead_ns: u64,
    /// Whether what is read is compared with a checksum of what was written.
    pub has_checksums: bool,
    /// What goes wrong, in tests.
    pub faults: Option<Arc<DiskFaults>>,
}

/// What an NVMe disk of PCIe 3.0 does at least.
const BYTES_PER_SECOND: f64 = 3e9;
/// A first answer of such a disk.
const OVERHEAD_NS: u64 = 100_000;

impl DiskTier {
    /// A disk tier of so many bytes in a folder, of the assumed speed.
    pub fn new(folder: impl Into<PathBuf>, limit_bytes: usize) -> Self {
        DiskTier {
            folder: folder.into(),
            limit_bytes,
            bytes_per_second: BYTES_PER_SECOND,
            overhead_ns: OVERHEAD_NS,
            has_checksums: true,
            faults: None,
        }
    }

    /// Predicted time to read or write so many bytes. In nanoseconds.
    pub fn copy_ns(&self, bytes: usize) -> u64 {
        self.overhead_ns + (bytes as f64 / self.bytes_per_second * 1e9) as u64
    }
}

/// The error says what was expected instead.
impl std::str::FromStr for DiskTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            String::from(
                "FOLDER:BYTES such as /fast/spill:200GiB, with @RATE such as @7GB/s if that is known",
            )
        };
        let (place, speed) = split_rate(text);
        let (folder, limit) = place.rsplit_once(':').ok_or_else(expected)?;
        let mut disk = DiskTier::new(folder, bytes(limit).ok_or_else(expected)?);
        if let Some(speed) = speed {
            disk.bytes_per_second = rate(speed).ok_or_else(expected)?;
        }
        Ok(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_a_folder_an_amount_and_perhaps_a_rate() {
        let parsed = |text: &str| text.parse::<DiskTier>();
        assert_eq!(parsed("/a:b:1KiB"), Ok(DiskTier::new("/a:b", 1024)));
        let fast = DiskTier { bytes_per_second: 7e9, ..DiskTier::new("", 1 << 40) };
        assert_eq!(parsed(":1TiB@7GB/s"), Ok(fast));
        for wrong in ["", "/a", "/a:", "/a:much", "/a:1GiB@fast", "/a:1GiB@7GB", "/a:1GiB@0GB/s"] {
            assert!(parsed(wrong).unwrap_err().contains("/fast/spill:200GiB"), "{wrong}");
        }
    }
}
