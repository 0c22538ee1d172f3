//! What the lanes of the disk do: writes that do not lose anything, and reads that are what was written.

use crate::engine::{DiskTier, EngineError, MapError, Span};
use crate::messages;

#[cfg(not(target_os = "linux"))]
mod other {
    use super::*;

    /// The disk tier of an engine, which there is only on Linux.
    #[derive(Debug)]
    pub struct DiskStore;

    impl DiskStore {
        pub fn new(_: &DiskTier) -> Result<Self, String> {
            Err("the disk tier is for Linux".into())
        }

        pub fn map(&self, _: usize) -> Result<Span, MapError> {
            Err("the disk tier is for Linux".into())
        }

        pub fn unmap(&self, _: Span) {}

        pub fn failed_writes(&self) -> u64 {
            0
        }

        /// # Safety
        /// None is needed.
        pub unsafe fn copy(&self, from: Span, _: Span) -> Result<(), EngineError> {
            Err(EngineError::Copy { bytes: from.bytes, reason: "the disk tier is for Linux".into() })
        }
    }
}
#[cfg(not(target_os = "linux"))]
pub use other::DiskStore;

#[cfg(target_os = "linux")]
pub use linux::DiskStore;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use xxhash_rust::xxh3::xxh3_64;

    use super::super::file::UnlistedFile;
    use super::super::requests::{Direction, Requests, Transfer};
    use super::*;
    use crate::engine::{DISK_ALIGN_BYTES, Tier};

    /// The disk tier of an engine.
    #[derive(Debug)]
    pub struct DiskStore {
        folder: String,
        unlisted: UnlistedFile,
        read: Requests,
        write: Requests,
        mapped: Mutex<Mapped>,
        /// What could not be written, page by page.
        kept: Mutex<HashMap<u64, Box<[u8]>>>,
        failed_writes: AtomicU64,
        /// Of each page that was written, if that is wanted.
        checksums: Option<Mutex<Vec<u32>>>,
    }

    #[derive(Debug, Default)]
    struct Mapped {
        slabs: usize,
        end: u64,
    }

    const PAGE_BYTES: u64 = DISK_ALIGN_BYTES as u64;

    /// The pages of the file that some content takes.
    fn pages(place: u64, content: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
        (place / PAGE_BYTES..).zip(content.chunks(PAGE_BYTES as usize))
    }

    fn checksum(content: &[u8]) -> u32 {
        xxh3_64(content) as u32
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    impl DiskStore {
        /// A store in a folder, whose file system must have room for the whole tier.
        pub fn new(disk: &DiskTier) -> Result<Self, String> {
            let folder = disk.folder.display().to_string();
            let told = |error: rustix::io::Errno| format!("{folder}: {}", io::Error::from(error));
            let system = rustix::fs::statvfs(&disk.folder).map_err(told)?;
            let free_bytes = system.f_bavail.saturating_mul(system.f_frsize);
            if free_bytes < disk.limit_bytes as u64 {
                return Err(format!(
                    "{folder}: {} bytes were asked for and {free_bytes} are free",
                    disk.limit_bytes
                ));
            }
            let unlisted = UnlistedFile::new(disk)?;
            let (read, write) = (Requests::new(), Requests::new());
            let direct = if unlisted.is_direct { "direct" } else { "through the system's cache" };
            messages::tell(
                log::Level::Info,
                format_args!("disk tier in {folder}: {}, {direct}", read.kind()),
            );
            Ok(DiskStore {
                folder,
                unlisted,
                read,
                write,
                mapped: Mutex::default(),
                kept: Mutex::default(),
                failed_writes: AtomicU64::new(0),
                checksums: disk.has_checksums.then(Mutex::default),
            })
        }

        /// How many writes have failed.
        pub fn failed_writes(&self) -> u64 {
            self.failed_writes.load(Ordering::SeqCst)
        }

        /// The next part of the file.
        pub fn map(&self, bytes: usize) -> Result<Span, MapError> {
            let mut mapped = lock(&self.mapped);
            let (begin, end) = (mapped.end, mapped.end + bytes as u64);
            let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.folder));
            self.unlisted.allocate(begin, end).map_err(told)?;
            *mapped = Mapped { slabs: mapped.slabs + 1, end };
            if let Some(checksums) = &self.checksums {
                lock(checksums).resize(end.div_ceil(PAGE_BYTES) as usize, 0);
            }
            Ok(Span { tier: Tier::Disk, address: begin, bytes })
        }

        /// Counts a part as unused. The file becomes empty when all are.
        pub fn unmap(&self, _: Span) {
            let mut mapped = lock(&self.mapped);
            mapped.slabs -= 1;
            if mapped.slabs == 0 {
                mapped.end = 0;
                let _ = self.unlisted.clear();
                lock(&self.kept).clear();
            }
        }

        /// Copies between host memory and the file. What cannot be written is kept in memory, with an error in the log.
        ///
        /// # Safety
        /// As for [`Engine::copy`](crate::engine::Engine::copy), until this returns.
        pub unsafe fn copy(&self, from: Span, to: Span) -> Result<(), EngineError> {
            let (memory, file, direction) = match to.tier {
                Tier::Disk => (from, to, Direction::Write),
                _ => (to, from, Direction::Read),
            };
            let memory_start = std::ptr::with_exposed_provenance_mut(memory.address as usize);
            let (bytes, place) = (memory.bytes, file.address);
            let transfer = Transfer { direction, memory: memory_start, bytes, place };
            match direction {
                // SAFETY: the caller's.
                Direction::Write => unsafe { self.write(transfer) },
                // SAFETY: the caller's.
                Direction::Read => unsafe { self.read(transfer) }.map_err(|reason| EngineError::Copy {
                    bytes,
                    reason: format!("{}: {reason}", self.folder),
                })?,
            }
            Ok(())
        }

        /// # Safety
        /// As for [`Requests::run`].
        unsafe fn write(&self, transfer: Transfer) {
            let Transfer { memory, bytes, place, .. } = transfer;
            // SAFETY: the caller's.
            let content = unsafe { std::slice::from_raw_parts(memory, bytes) };
            if let Some(checksums) = &self.checksums {
                let mut checksums = lock(checksums);
                pages(place, content)
                    .for_each(|(page, content)| checksums[page as usize] = checksum(content));
            }
            if self.failed_writes() > 0 {
                let mut kept = lock(&self.kept);
                pages(place, content).for_each(|(page, _)| drop(kept.remove(&page)));
            }
            // SAFETY: the caller's.
            if let Err(error) = unsafe { self.write.run(&self.unlisted, transfer) } {
                if self.failed_writes.fetch_add(1, Ordering::SeqCst) == 0 {
                    messages::tell(
                        log::Level::Error,
                        format_args!(
                            "{}: {error}: nothing more is written there, and writes under way stay in memory; make room there, and \
                             configure the device again",
                            self.folder
                        ),
                    );
                }
                lock(&self.kept).extend(pages(place, content).map(|(page, content)| (page, content.into())));
            }
        }

        /// # Safety
        /// As for [`Requests::run`].
        unsafe fn read(&self, transfer: Transfer) -> Result<(), String> {
            let Transfer { memory, bytes, place, .. } = transfer;
            // SAFETY: the caller's.
            let try_once = || unsafe { self.read.run(&self.unlisted, transfer) };
            // A second try costs little beside the program's end.
            let read = try_once().or_else(|_| try_once());
            // SAFETY: the caller's, and nothing is under way.
            let content = unsafe { std::slice::from_raw_parts_mut(memory, bytes) };
            let kept_pages = if self.failed_writes() > 0 { self.restore(place, content) } else { 0 };
            if kept_pages < bytes.div_ceil(DISK_ALIGN_BYTES) {
                read.map_err(|error| error.to_string())?;
            }
            let Some(checksums) = &self.checksums else { return Ok(()) };
            let checksums = lock(checksums);
            let wrong =
                pages(place, content).find(|(page, content)| checksums[*page as usize] != checksum(content));
            wrong.map_or(Ok(()), |(page, _)| {
                Err(format!(
                    "the {PAGE_BYTES} bytes at {} are not those that were written",
                    page * PAGE_BYTES
                ))
            })
        }

        /// Puts what could not be written where it belongs. Returns how many pages that are.
        fn restore(&self, place: u64, content: &mut [u8]) -> usize {
            let kept = lock(&self.kept);
            let mut restored = 0;
            for (page, content) in (place / PAGE_BYTES..).zip(content.chunks_mut(PAGE_BYTES as usize)) {
                if let Some(kept) = kept.get(&page) {
                    content.copy_from_slice(&kept[..content.len()]);
                    restored += 1;
                }
            }
            restored
        }
    }

    #[cfg(test)]
    mod tests {
        use std::sync::Arc;

        use memmap2::MmapMut;

        use super::*;
        use crate::engine::disk::faults::{DiskFault, DiskFaults};

        const BYTES: usize = 8192;

        fn span(memory: &mut MmapMut) -> Span {
            let address = memory.as_mut_ptr().expose_provenance() as u64;
            Span { tier: Tier::Host, address, bytes: BYTES }
        }

        fn store(fault: Option<DiskFault>) -> (DiskStore, [MmapMut; 2]) {
            let folder = tempfile::tempdir().expect("a folder");
            let faults = fault.map(|fault| Arc::new(DiskFaults::new(fault)));
            let disk = DiskTier { faults, ..DiskTier::new(folder.path(), 1 << 20) };
            let store = DiskStore::new(&disk).expect("a folder that can be written");
            let mut memory = [(); 2].map(|()| MmapMut::map_anon(BYTES).expect("memory"));
            memory[0].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7) as u8);
            (store, memory)
        }

        #[test]
        fn what_cannot_be_written_is_not_lost() {
            // The first write alone, and all from the second one on: a read is a request, too.
            for fault in [DiskFault::FailedRequest(0), DiskFault::FailedRequests(2)] {
                let (store, [mut from, mut to]) = store(Some(fault));
                let file = store.map(BYTES).expect("it fits");
                for _ in 0..2 {
                    // SAFETY: two mappings as long as the span.
                    unsafe { store.copy(span(&mut from), file).expect("kept") };
                    to.fill(0);
                    // SAFETY: as above.
                    unsafe { store.copy(file, span(&mut to)).expect("read") };
                    assert!(from[..] == to[..]);
                    from[0] += 1;
                }
                let kept_pages = lock(&store.kept).len();
                assert_eq!(kept_pages > 0, fault == DiskFault::FailedRequests(2));
                store.unmap(file);
                assert!(lock(&store.kept).is_empty());
            }
        }

        #[test]
        fn what_was_changed_on_the_disk_is_an_error() {
            let (store, [mut from, mut to]) = store(None);
            let file = store.map(BYTES).expect("it fits");
            // SAFETY: two mappings as long as the span.
            unsafe {
                store.copy(span(&mut from), file).expect("written");
                from[5000] ^= 1;
                let changed = span(&mut from);
                let transfer = Transfer {
                    direction: Direction::Write,
                    memory: std::ptr::with_exposed_provenance_mut(changed.address as usize),
                    bytes: BYTES,
                    place: 0,
                };
                store.write.run(&store.unlisted, transfer).expect("written behind its back");
                let error = store.copy(file, span(&mut to)).expect_err("another checksum");
                assert!(error.to_string().contains("are not those that were written"), "{error}");
            }
        }

        #[test]
        fn a_folder_must_be_there_and_have_room() {
            let error = |folder: &std::path::Path, bytes| {
                DiskStore::new(&DiskTier::new(folder, bytes)).expect_err("refused")
            };
            let folder = tempfile::tempdir().expect("a folder");
            assert!(error(&folder.path().join("none"), 1).contains("No such file"));
            assert!(error(folder.path(), 1 << 60).contains("are free"));
            let file = folder.path().join("file");
            std::fs::write(&file, "").expect("written");
            assert!(error(&file, 1).contains("Not a directory"));
        }
    }
}
