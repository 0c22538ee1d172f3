//! The file: without a name, for its user alone, with its memory allocated before it is written.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    FallocateFlags, Mode, OFlags, fallocate, fcntl_getfl, fcntl_setfl, ftruncate, open, unlink,
};
use rustix::io::Errno;

use super::faults::DiskFaults;
use crate::engine::{DISK_ALIGN_BYTES, DiskTier};

/// An open file that no folder lists, so that it is gone when the process is.
#[derive(Debug)]
pub struct UnlistedFile {
    pub file: File,
    /// Whether the system's cache is passed by.
    pub is_direct: bool,
    faults: Option<Arc<DiskFaults>>,
}

impl UnlistedFile {
    /// Makes a file in the folder of a tier.
    pub fn new(DiskTier { folder, faults, .. }: &DiskTier) -> Result<Self, String> {
        let told = |error: Errno| format!("{}: {}", folder.display(), io::Error::from(error));
        let file = unlisted(folder).map_err(told)?;
        let is_direct =
            fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::DIRECT)).is_ok();
        Ok(UnlistedFile { file: File::from(file), is_direct, faults: faults.clone() })
    }

    /// Allocates the bytes up to `end`, from `begin` on.
    pub fn allocate(&self, begin: u64, end: u64) -> io::Result<()> {
        if self.faults.as_ref().is_some_and(|faults| !faults.next_allocation()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match fallocate(&self.file, FallocateFlags::empty(), begin, end - begin) {
            // A file system that cannot allocate ahead of a write.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(ftruncate(&self.file, end)?),
            allocated => Ok(allocated?),
        }
    }

    /// The bytes that are asked of the system for a request of so many: all, but where a test plants a fault.
    pub fn next_request(&self, bytes: usize) -> io::Result<usize> {
        let Some(faults) = &self.faults else { return Ok(bytes) };
        faults.next_request(bytes, DISK_ALIGN_BYTES).ok_or_else(|| io::Error::other("planted"))
    }

    /// Fails where a test plants a fault of a ring.
    pub fn next_submission(&self) -> io::Result<()> {
        match self.faults.as_ref().is_some_and(|faults| !faults.next_submission()) {
            true => Err(io::Error::other("planted")),
            false => Ok(()),
        }
    }

    /// Gives all its memory back.
    pub fn clear(&self) -> io::Result<()> {
        Ok(ftruncate(&self.file, 0)?)
    }
}

fn unlisted(folder: &Path) -> rustix::io::Result<OwnedFd> {
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match open(folder, flags | OFlags::TMPFILE, mode) {
        // A file system without such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".burn-overcommit-{}-{number}", std::process::id()));
            let file = open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
            unlink(&path)?;
            Ok(file)
        }
        opened => opened,
    }
}
