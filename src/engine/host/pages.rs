//! Pages of a file that is in memory alone, put behind reserved addresses: what the virtual-memory calls of a GPU do.

use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::resident::Resident;
use crate::engine::pages::{PageSet, runs};
use crate::engine::{Span, Tier};

/// Physical pages, and the addresses reserved for them.
#[derive(Debug)]
pub(super) struct PageMemory {
    file: OwnedFd,
    file_pages: usize,
    page_bytes: usize,
    existing: PageSet,
    reserved: Vec<Reserved>,
    pub resident: Arc<Resident>,
}

/// Addresses that are ours until this is dropped.
#[derive(Debug)]
struct Reserved {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: it names addresses, and only the engine's lanes, in the order that marks give, touch what is there.
unsafe impl Send for Reserved {}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by `PageMemory::reserve`, and the engine ends its lanes before its memory.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// The smallest multiple of the system's page size that is at least `bytes`.
pub(super) fn possible_page_bytes(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(rustix::param::page_size())
}

impl PageMemory {
    /// No pages and no addresses; fails where the system has no such files.
    pub fn new(page_bytes: usize) -> io::Result<Self> {
        let file = memfd_create("overcommit-pages", MemfdFlags::CLOEXEC)?;
        let resident = Arc::new(Resident::new(page_bytes));
        let (existing, reserved) = (PageSet::default(), Vec::new());
        Ok(PageMemory { file, file_pages: 0, page_bytes, existing, reserved, resident })
    }

    /// Addresses that begin at a multiple of the page, so that the system may map all of a page at once.
    pub fn reserve(&mut self, bytes: usize) -> io::Result<Span> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let reserved_bytes = bytes + self.page_bytes;
        // SAFETY: a new mapping at an address that the system picks touches nothing that exists.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), reserved_bytes, ProtFlags::empty(), flags) }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        self.reserved.push(Reserved { start, bytes: reserved_bytes });
        let address = start.as_ptr().expose_provenance().next_multiple_of(self.page_bytes) as u64;
        let range = Span { tier: Tier::Device, address, bytes };
        self.resident.add(range);
        Ok(range)
    }

    /// How many of these pages there are not yet.
    pub fn missing(&self, physical: &[u32]) -> usize {
        self.existing.missing(physical)
    }

    /// Puts pages behind addresses, a call for each run of neighbours.
    ///
    /// # Safety
    /// The span lies in reserved addresses, as long as the pages together, and nothing uses it.
    pub unsafe fn map(&mut self, at: Span, physical: &[u32]) -> io::Result<()> {
        let end = physical.iter().map(|&page| page as usize + 1).max().unwrap_or(0);
        if end > self.file_pages {
            ftruncate(&self.file, (end * self.page_bytes) as u64)?;
            self.file_pages = end;
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        for (begin, count) in runs(physical) {
            let address = at.address as usize + begin * self.page_bytes;
            let offset = u64::from(physical[begin]) * self.page_bytes as u64;
            let bytes = count * self.page_bytes;
            let address = ptr::with_exposed_provenance_mut(address);
            // SAFETY: the caller says that these addresses are reserved and unused, so what is replaced there is ours.
            unsafe {
                mmap(address, bytes, access, flags, &self.file, offset)?;
                // Where the system has no large pages, it takes longer to touch memory again that counts no more.
                let _ = madvise(address, bytes, Advice::LinuxHugepage);
            }
        }
        self.existing.insert(physical);
        self.resident.set_pages(self.existing.len());
        Ok(())
    }

    /// Gives pages back to the system; how many there were. What is mapped there reads as zeros from now on.
    pub fn release(&mut self, physical: &[u32]) -> usize {
        let there = self.existing.remove(physical);
        self.resident.set_pages(self.existing.len());
        for (begin, count) in runs(physical) {
            let offset = u64::from(physical[begin]) * self.page_bytes as u64;
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Memory that the system does not take back is used again.
            let _ = fallocate(&self.file, mode, offset, (count * self.page_bytes) as u64);
        }
        there
    }
}
