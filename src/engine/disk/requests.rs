//! Reading and writing with many requests in flight: by io_uring, or by threads where the kernel has none or forbids it.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use io_uring::{IoUring, opcode, types};

use super::file::UnlistedFile;
use crate::messages;

/// The bytes of one request.
const REQUEST_BYTES: usize = 1 << 20;
/// The requests in flight.
const DEPTH: usize = 32;
/// The threads that take the place of a ring.
const THREADS: usize = 8;
/// Errors of submissions one after the other, a millisecond apart, after which threads take the place of a ring.
const MAX_FAILURES: u32 = 100;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// A run of bytes in memory and its place in the file.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub direction: Direction,
    /// The address in memory.
    pub memory: *mut u8,
    pub bytes: usize,
    /// The place in the file.
    pub place: u64,
}

// SAFETY: whoever runs a transfer vouches for the memory, on whatever thread that is.
unsafe impl Send for Transfer {}
// SAFETY: as above.
unsafe impl Sync for Transfer {}

impl Transfer {
    /// The part of it that is number `index` of equal requests.
    fn request(self, index: usize) -> Transfer {
        self.rest(index * REQUEST_BYTES, REQUEST_BYTES)
    }

    /// At most `bytes` of it from `begin` on.
    fn rest(self, begin: usize, bytes: usize) -> Transfer {
        let bytes = bytes.min(self.bytes - begin);
        Transfer { memory: self.memory.wrapping_add(begin), bytes, place: self.place + begin as u64, ..self }
    }

    fn requests(self) -> usize {
        self.bytes.div_ceil(REQUEST_BYTES)
    }
}

/// Who makes the requests of one lane.
#[derive(Debug)]
pub enum Requests {
    /// Empty once the ring has failed: threads take its place.
    Ring(Box<Mutex<Option<Ring>>>),
    Threads,
}

impl Requests {
    /// A ring if the kernel gives one.
    pub fn new() -> Self {
        match IoUring::new(DEPTH as u32) {
            Ok(ring) => Requests::Ring(Box::new(Mutex::new(Some(Ring(ring))))),
            Err(_) => Requests::Threads,
        }
    }

    /// How requests are made, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Requests::Ring(_) => "io_uring",
            Requests::Threads => "threads",
        }
    }

    /// Reads or writes all bytes.
    ///
    /// # Safety
    /// The memory is valid for reads and writes until this returns, and nobody else writes it, or reads it if it is written.
    pub unsafe fn run(&self, file: &UnlistedFile, transfer: Transfer) -> io::Result<()> {
        if let Requests::Ring(ring) = self {
            let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller's.
            if let Some(outcome) = ring.as_mut().and_then(|ring| unsafe { ring.run(file, transfer) }) {
                return outcome;
            }
            // This drops the requests that the kernel has not taken.
            *ring = None;
        }
        // SAFETY: the caller's.
        unsafe { by_threads(file, transfer) }
    }
}

/// A ring of requests to the kernel.
pub struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Reads or writes all bytes. Returns `None` if the kernel takes no more requests. It has answered those that it took by then,
    /// and the ring must not be used again.
    ///
    /// # Safety
    /// As for [`Requests::run`].
    unsafe fn run(&mut self, file: &UnlistedFile, transfer: Transfer) -> Option<io::Result<()>> {
        let mut slots: [Option<Transfer>; DEPTH] = [None; DEPTH];
        let (mut next, mut in_flight, mut failures) = (0, 0, 0);
        let mut outcome = Ok(());
        loop {
            for (number, slot) in slots.iter_mut().enumerate() {
                if slot.is_none() && next < transfer.requests() && outcome.is_ok() {
                    let request = transfer.request(next);
                    // SAFETY: the caller's; nothing returns before the kernel has answered all requests.
                    outcome = unsafe { self.push(file, request, number) };
                    next += 1;
                    if outcome.is_ok() {
                        *slot = Some(request);
                        in_flight += 1;
                    }
                }
            }
            if in_flight == 0 {
                return (failures < MAX_FAILURES).then_some(outcome);
            }
            let submitted = match failures < MAX_FAILURES {
                true => file.next_submission().and_then(|()| self.0.submit_and_wait(1)),
                // The kernel uses the memory until it has answered the requests that it took.
                false => Err(io::ErrorKind::Other.into()),
            };
            match submitted {
                Ok(_) => failures = 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    failures = failures.saturating_add(1);
                    if failures == MAX_FAILURES {
                        messages::tell(
                            log::Level::Warn,
                            format_args!("io_uring: {error}: threads take its place"),
                        );
                        in_flight -= self.0.submission().len();
                        outcome = Err(error);
                    }
                }
            }
            let answers: Vec<_> = self.0.completion().collect();
            for answer in answers {
                let number = answer.user_data() as usize;
                let request = slots[number].take().expect("an answer to a request");
                in_flight -= 1;
                match moved(request, answer.result()) {
                    Ok(bytes) if bytes == request.bytes => {}
                    Ok(bytes) if outcome.is_ok() => {
                        let rest = request.rest(bytes, REQUEST_BYTES);
                        // SAFETY: as above.
                        outcome = unsafe { self.push(file, rest, number) };
                        if outcome.is_ok() {
                            slots[number] = Some(rest);
                            in_flight += 1;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
        }
    }

    /// # Safety
    /// As for [`Requests::run`], until the kernel has answered.
    unsafe fn push(&mut self, file: &UnlistedFile, request: Transfer, number: usize) -> io::Result<()> {
        let Transfer { direction, memory, bytes, place } = request;
        let bytes = file.next_request(bytes)?;
        let file = types::Fd(file.file.as_raw_fd());
        let entry = match direction {
            Direction::Read => opcode::Read::new(file, memory, bytes as u32).offset(place).build(),
            Direction::Write => opcode::Write::new(file, memory, bytes as u32).offset(place).build(),
        };
        // SAFETY: the caller's; there are no more requests than the ring has entries.
        unsafe { self.0.submission().push(&entry.user_data(number as u64)) }.expect("the ring has room");
        Ok(())
    }
}

/// The bytes that a request moved: none at all is an error, but of an interrupted one.
fn moved(request: Transfer, result: i32) -> io::Result<usize> {
    match usize::try_from(result) {
        Ok(0) => Err(nothing_moved(request)),
        Ok(bytes) => Ok(bytes),
        Err(_) => match io::Error::from_raw_os_error(-result) {
            error if is_passing(&error) => Ok(0),
            error => Err(error),
        },
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

fn nothing_moved(request: Transfer) -> io::Error {
    let (kind, verb) = match request.direction {
        Direction::Read => (io::ErrorKind::UnexpectedEof, "read"),
        Direction::Write => (io::ErrorKind::WriteZero, "written"),
    };
    io::Error::new(kind, format!("0 of {} bytes were {verb} at {}", request.bytes, request.place))
}

/// # Safety
/// As for [`Requests::run`].
unsafe fn by_threads(file: &UnlistedFile, transfer: Transfer) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= transfer.requests() {
                return Ok(());
            }
            // SAFETY: the caller's, of a part of the memory.
            unsafe { one(file, transfer.request(index)) }?;
        }
    };
    if transfer.requests() < 2 {
        return work();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..transfer.requests().min(THREADS)).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let others = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        others.fold(mine, |all, one| all.and(one))
    })
}

/// # Safety
/// As for [`Requests::run`].
unsafe fn one(file: &UnlistedFile, request: Transfer) -> io::Result<()> {
    let mut done = 0;
    while done < request.bytes {
        let Transfer { direction, memory, bytes, place } = request.rest(done, REQUEST_BYTES);
        let bytes = file.next_request(bytes)?;
        // SAFETY: the caller's.
        let result = unsafe {
            match direction {
                Direction::Read => file.file.read_at(std::slice::from_raw_parts_mut(memory, bytes), place),
                Direction::Write => file.file.write_at(std::slice::from_raw_parts(memory, bytes), place),
            }
        };
        match result {
            Ok(0) => return Err(nothing_moved(request)),
            Ok(bytes) => done += bytes,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::DiskTier;
    use crate::engine::disk::faults::{DiskFault, DiskFaults};

    #[test]
    fn what_is_written_is_read_whoever_makes_the_requests() {
        let folder = tempfile::tempdir().expect("a folder");
        let unlisted = UnlistedFile::new(&DiskTier::new(folder.path(), 0)).expect("a file");
        let bytes = 3 * REQUEST_BYTES + 4096;
        unlisted.allocate(0, 2 * bytes as u64).expect("it fits");
        let mut memory = memmap2::MmapMut::map_anon(2 * bytes).expect("memory");
        for (round, requests) in [Requests::new(), Requests::Threads].into_iter().enumerate() {
            let place = (round * bytes) as u64;
            let (from, to) = memory.split_at_mut(bytes);
            from.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 511 + at + round) as u8);
            let transfer = |direction, memory: &mut [u8]| Transfer {
                direction,
                memory: memory.as_mut_ptr(),
                bytes,
                place,
            };
            // SAFETY: two halves of a mapping.
            unsafe {
                requests.run(&unlisted, transfer(Direction::Write, from)).expect("written");
                requests.run(&unlisted, transfer(Direction::Read, to)).expect("read");
            }
            assert!(from == to, "{}", requests.kind());
        }
    }

    #[test]
    fn what_a_request_does_not_move_is_moved_by_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = REQUEST_BYTES + 3 * 4096;
        let mut memory = memmap2::MmapMut::map_anon(2 * bytes).expect("memory");
        for kind in [Requests::new, || Requests::Threads] {
            for short in 0..4 {
                let faults = Some(Arc::new(DiskFaults::new(DiskFault::ShortRequest(short))));
                let tier = DiskTier { faults: faults.clone(), ..DiskTier::new(folder.path(), 0) };
                let unlisted = UnlistedFile::new(&tier).expect("a file");
                let requests = kind();
                let (from, to) = memory.split_at_mut(bytes);
                from.iter_mut()
                    .enumerate()
                    .for_each(|(at, byte)| *byte = (at / 511 + at + short as usize) as u8);
                let transfer = |direction, memory: *mut u8| Transfer { direction, memory, bytes, place: 0 };
                // SAFETY: two halves of a mapping.
                unsafe {
                    requests.run(&unlisted, transfer(Direction::Write, from.as_mut_ptr())).expect("written");
                    requests.run(&unlisted, transfer(Direction::Read, to.as_mut_ptr())).expect("read");
                }
                assert!(from == to && faults.is_some_and(|faults| faults.has_happened()), "{short}");
            }
        }
    }

    #[test]
    fn threads_take_the_place_of_a_ring_that_takes_no_requests() {
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = 2 * DEPTH * REQUEST_BYTES;
        let mut memory = memmap2::MmapMut::map_anon(2 * bytes).expect("memory");
        for submissions in 0..3 {
            let faults = Some(Arc::new(DiskFaults::new(DiskFault::FailedSubmissions(submissions))));
            let tier = DiskTier { faults: faults.clone(), ..DiskTier::new(folder.path(), 0) };
            let unlisted = UnlistedFile::new(&tier).expect("a file");
            let requests = Requests::new();
            let (from, to) = memory.split_at_mut(bytes);
            from.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 511 + at) as u8);
            let transfer = |direction, memory: *mut u8| Transfer { direction, memory, bytes, place: 0 };
            // SAFETY: two halves of a mapping.
            unsafe {
                requests.run(&unlisted, transfer(Direction::Write, from.as_mut_ptr())).expect("written");
                requests.run(&unlisted, transfer(Direction::Read, to.as_mut_ptr())).expect("read");
            }
            assert!(from == to, "{submissions}");
            if let Requests::Ring(ring) = &requests {
                assert!(ring.lock().unwrap().is_none() && faults.is_some_and(|faults| faults.has_happened()));
            }
        }
    }

    #[test]
    fn a_file_that_ends_early_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let unlisted = UnlistedFile::new(&DiskTier::new(folder.path(), 0)).expect("a file");
        unlisted.allocate(0, 2 * REQUEST_BYTES as u64).expect("it fits");
        let bytes = 4 * REQUEST_BYTES;
        let mut memory = memmap2::MmapMut::map_anon(bytes).expect("memory");
        for requests in [Requests::new(), Requests::Threads] {
            let transfer =
                Transfer { direction: Direction::Read, memory: memory.as_mut_ptr(), bytes, place: 0 };
            // SAFETY: a mapping.
            let error = unsafe { requests.run(&unlisted, transfer) }.expect_err("half of it is there");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        }
    }
}
