//! What goes wrong in a disk, on purpose, for tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// What goes wrong in a disk. Requests and allocations are counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// A request moves its first page and no more, which is no error.
    ShortRequest(u64),
    /// A request fails.
    FailedRequest(u64),
    /// All requests from this one on fail.
    FailedRequests(u64),
    /// The disk is full from this allocation on.
    Full(u64),
    /// The kernel takes no requests from this submission to a ring on.
    FailedSubmissions(u64),
}

/// A fault of a disk, and how far the disk is from it.
#[derive(Debug)]
pub struct DiskFaults {
    fault: DiskFault,
    requests: AtomicU64,
    allocations: AtomicU64,
    submissions: AtomicU64,
}

impl DiskFaults {
    /// A fault of a disk that did nothing yet.
    pub fn new(fault: DiskFault) -> Self {
        let [requests, allocations, submissions] = [const { AtomicU64::new(0) }; 3];
        DiskFaults { fault, requests, allocations, submissions }
    }

    /// Whether the disk has come to the fault.
    pub fn has_happened(&self) -> bool {
        match self.fault {
            DiskFault::ShortRequest(at) | DiskFault::FailedRequest(at) | DiskFault::FailedRequests(at) => {
                self.requests.load(Ordering::Relaxed) > at
            }
            DiskFault::Full(at) => self.allocations.load(Ordering::Relaxed) > at,
            DiskFault::FailedSubmissions(at) => self.submissions.load(Ordering::Relaxed) > at,
        }
    }

    /// The bytes that the next request moves, of those that are asked for, if one that is short moves `short_bytes`; `None` if it fails.
    #[cfg(all(target_os = "linux", any(feature = "host", feature = "cuda")))]
    pub(super) fn next_request(&self, bytes: usize, short_bytes: usize) -> Option<usize> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            DiskFault::ShortRequest(at) if number == at => Some(bytes.min(short_bytes)),
            DiskFault::FailedRequest(at) if number == at => None,
            DiskFault::FailedRequests(at) if number >= at => None,
            _ => Some(bytes),
        }
    }

    /// Whether the disk has room for the next allocation.
    #[cfg(all(target_os = "linux", any(feature = "host", feature = "cuda")))]
    pub(super) fn next_allocation(&self) -> bool {
        let number = self.allocations.fetch_add(1, Ordering::Relaxed);
        !matches!(self.fault, DiskFault::Full(at) if number >= at)
    }

    /// Whether the kernel takes the next submission.
    #[cfg(all(target_os = "linux", any(feature = "host", feature = "cuda")))]
    pub(super) fn next_submission(&self) -> bool {
        let number = self.submissions.fetch_add(1, Ordering::Relaxed);
        !matches!(self.fault, DiskFault::FailedSubmissions(at) if number >= at)
    }
}

/// Only a fault itself is equal to it.
impl PartialEq for DiskFaults {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
