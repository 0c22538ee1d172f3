use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::engine::link::Link;
use crate::engine::{EngineError, Failure, Lane, Launch, Mark, Ran, Span};

/// One piece of a lane's work. Launches lie in the queue themselves, so that submitting allocates nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Piece {
    Launch(Launch),
    Copy { from: Span, to: Span },
    Wait(Mark),
}

/// What runs launches and copies.
pub type PieceRunner = Box<dyn Fn(&Piece) -> Result<(), EngineError> + Send + Sync>;

/// Locks, whatever happened to an earlier holder: nothing below leaves a locked value half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On a line of the cache of its own: threads that write it do not slow down those that read what lies beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// A lane: pieces not yet begun, and how many were submitted and done.
#[derive(Debug, Default)]
pub struct Queue {
    pieces: Apart<Mutex<VecDeque<Piece>>>,
    submitted: Apart<AtomicU64>,
    completed: Apart<AtomicU64>,
    /// Whether some thread is running pieces of this lane.
    held: AtomicBool,
}

/// What became of a lane's oldest piece.
pub(super) enum PieceOutcome {
    Ran,
    Blocked(Mark),
    Empty,
}

/// The right to run pieces of a lane, which one thread has at a time.
pub(super) struct Holder<'a> {
    shared: &'a Shared,
    lane: Lane,
    queue: &'a Queue,
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        self.queue.held.store(false, Ordering::SeqCst);
    }
}

impl Queue {
    pub fn push(&self, piece: Piece) {
        let mut pieces = lock(&self.pieces.0);
        pieces.push_back(piece);
        // Counted under the lock, so that counts follow the order of the queue.
        let count = self.submitted.0.load(Ordering::Relaxed) + 1;
        self.submitted.0.store(count, Ordering::SeqCst);
    }

    pub fn submitted(&self) -> u64 {
        self.submitted.0.load(Ordering::SeqCst)
    }

    pub fn completed(&self) -> u64 {
        self.completed.0.load(Ordering::SeqCst)
    }

    pub fn reached(&self, mark: Mark) -> bool {
        self.completed() >= mark.sequence
    }

    pub fn is_idle(&self) -> bool {
        self.completed() == self.submitted()
    }
}

/// All lanes, and the pieces that failed.
pub(super) struct Shared {
    pub queues: [Queue; Lane::ALL.len()],
    run: PieceRunner,
    has_failed: AtomicBool,
    failures: Mutex<Vec<Failure>>,
    /// What copies between device and host took.
    pub link: Link,
    /// What copies to and from other devices took.
    pub peers: Link,
    /// What copies between host and disk took.
    pub disk: Link,
    /// When recording began, if it did.
    epoch: OnceLock<Instant>,
    /// When the pieces of each lane ran.
    record: [Mutex<Vec<Ran>>; Lane::ALL.len()],
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl Shared {
    pub fn new(run: PieceRunner) -> Self {
        Shared {
            queues: Default::default(),
            run,
            has_failed: AtomicBool::new(false),
            failures: Mutex::default(),
            link: Link::default(),
            peers: Link::default(),
            disk: Link::default(),
            epoch: OnceLock::new(),
            record: Default::default(),
        }
    }

    pub fn reached(&self, mark: Mark) -> bool {
        self.queues[mark.lane as usize].reached(mark)
    }

    /// The right to run a lane, unless another thread has it.
    pub fn hold(&self, lane: Lane) -> Option<Holder<'_>> {
        let queue = &self.queues[lane as usize];
        let was_held = queue.held.load(Ordering::SeqCst) || queue.held.swap(true, Ordering::SeqCst);
        (!was_held).then(|| Holder { shared: self, lane, queue })
    }

    pub fn record(&self) {
        self.epoch.get_or_init(Instant::now);
    }

    pub fn recorded(&self) -> Vec<Ran> {
        self.record.iter().flat_map(|record| std::mem::take(&mut *lock(record))).collect()
    }

    /// The failures since this was last asked.
    pub fn failures(&self) -> Vec<Failure> {
        match self.has_failed.swap(false, Ordering::SeqCst) {
            true => std::mem::take(&mut *lock(&self.failures)),
            false => Vec::new(),
        }
    }

    /// Runs the piece that ends at a mark.
    fn execute(&self, piece: &Piece, mark: Mark) {
        let begin = Instant::now();
        let result =
            catch_unwind(AssertUnwindSafe(|| (self.run)(piece))).unwrap_or_else(|_| Err(panicked(piece)));
        let took_ns = begin.elapsed().as_nanos() as u64;
        match piece {
            Piece::Launch(launch) => launch.instruction.measured.note(took_ns),
            Piece::Copy { from, to } => match mark.lane {
                lane if lane.is_of_disk() => self.disk.note(from.bytes, took_ns),
                lane if lane.is_of_peers() => self.peers.note(from.bytes, took_ns),
                _ if from.tier != to.tier => self.link.note(from.bytes, took_ns),
                _ => {}
            },
            _ => {}
        }
        if let Err(error) = result {
            lock(&self.failures).push(Failure { mark, error });
            self.has_failed.store(true, Ordering::SeqCst);
        }
    }
}

fn panicked(piece: &Piece) -> EngineError {
    let reason = "the kernel panicked, and what it spoiled is not known: begin anew in another process, and report it as a bug";
    let reason = reason.to_string();
    match piece {
        Piece::Copy { from, .. } => EngineError::Copy { bytes: from.bytes, reason },
        Piece::Launch(launch) => EngineError::Kernel { op: launch.instruction.op.name(), reason },
        Piece::Wait(_) => EngineError::Kernel { op: "wait", reason },
    }
}

impl Holder<'_> {
    fn time(&self, piece: &Piece, mark: Mark, epoch: &Instant) {
        let now_ns = || epoch.elapsed().as_nanos() as u64;
        let begin_ns = now_ns();
        self.shared.execute(piece, mark);
        lock(&self.shared.record[self.lane as usize]).push(Ran { mark, begin_ns, end_ns: now_ns() });
    }

    /// Runs the lane's oldest piece, if it may run.
    pub fn run_oldest(&self) -> PieceOutcome {
        let piece = {
            let mut pieces = lock(&self.queue.pieces.0);
            match pieces.front() {
                None => return PieceOutcome::Empty,
                Some(&Piece::Wait(mark)) if !self.shared.reached(mark) => return PieceOutcome::Blocked(mark),
                Some(_) => pieces.pop_front(),
            }
        };
        let mark = Mark { lane: self.lane, sequence: self.queue.completed() + 1 };
        match piece {
            None | Some(Piece::Wait(_)) => {}
            Some(piece) => match self.shared.epoch.get() {
                None => self.shared.execute(&piece, mark),
                Some(epoch) => self.time(&piece, mark, epoch),
            },
        }
        // Only the holder counts, so load and store need not be one operation. What the piece wrote, and that it failed, is
        // visible to whoever sees the count.
        self.queue.completed.0.store(mark.sequence, Ordering::SeqCst);
        PieceOutcome::Ran
    }
}
