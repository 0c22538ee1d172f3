use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use super::queue::{Piece, PieceOutcome, PieceRunner, Shared, lock};
use crate::engine::{Lane, Mark};

/// Turns of a loop that a thread looks for work before it sleeps: some microseconds.
const SPINS: u32 = 200;
/// Of these, the last ones let other threads run, which matters where cores are few.
const YIELDS: u32 = 8;

/// How often a worker that has nothing to do looks so for work before it sleeps: to be woken takes longer than a small op.
const ROUNDS: u32 = 5;

/// One worker per lane, and callers that help.
#[derive(Debug)]
pub struct Threads {
    state: Arc<State>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    shared: Shared,
    /// The lanes' workers, once they have begun.
    threads: [OnceLock<Thread>; Lane::ALL.len()],
    /// Whether a lane's worker sleeps until it is given work.
    parked: [AtomicBool; Lane::ALL.len()],
    stopping: AtomicBool,
    /// Threads asleep until a lane gets somewhere, and the least sequence any of them wants of each lane.
    sleepers: AtomicUsize,
    wanted: [AtomicU64; Lane::ALL.len()],
    gate: Mutex<()>,
    progress: Condvar,
}

/// Turns a loop until `done`; false if that took too long.
pub fn spin(done: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|turn| {
        if turn + YIELDS < SPINS {
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
        done()
    })
}

impl State {
    /// Sleeps until `mark` is reached or the engine goes. Someone runs the mark's lane, or its worker has been woken.
    fn sleep_until(&self, mark: Mark) {
        let mut guard = lock(&self.gate);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.shared.reached(mark) && !self.stopping.load(Ordering::SeqCst) {
            self.wanted[mark.lane as usize].fetch_min(mark.sequence, Ordering::SeqCst);
            // Looked at again after asking: a count that passed before was not told of.
            if self.shared.reached(mark) {
                break;
            }
            guard = self.progress.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes who waits for what this lane has done.
    fn tell(&self, lane: Lane) {
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let wanted = &self.wanted[lane as usize];
        if self.shared.queues[lane as usize].completed() >= wanted.load(Ordering::SeqCst) {
            let _guard = lock(&self.gate);
            wanted.store(u64::MAX, Ordering::SeqCst);
            self.progress.notify_all();
        }
    }

    /// A worker's life.
    fn work(&self, lane: Lane) {
        let index = lane as usize;
        self.threads[index].get_or_init(thread::current);
        let queue = &self.shared.queues[index];
        let stopping = || self.stopping.load(Ordering::SeqCst);
        while !stopping() {
            let mut blocked = None;
            if let Some(holder) = self.shared.hold(lane) {
                loop {
                    match holder.run_oldest() {
                        PieceOutcome::Ran if !stopping() => self.tell(lane),
                        PieceOutcome::Ran | PieceOutcome::Empty => break,
                        PieceOutcome::Blocked(mark) => {
                            blocked = Some(mark);
                            break;
                        }
                    }
                }
            }
            if let Some(mark) = blocked {
                // A copy that ops wait for is sooner made than its worker is woken; ops are for their own worker.
                if lane == Lane::Compute {
                    self.finish(mark);
                } else if !spin(|| self.shared.reached(mark)) {
                    self.sleep_until(mark);
                }
            } else if !(0..ROUNDS).any(|_| spin(|| !queue.is_idle() || stopping())) {
                self.park(lane);
            } else if self.shared.hold(lane).is_none() {
                // A caller runs the lane; it wakes this worker if it leaves work behind.
                self.park_while_held(lane);
            }
        }
    }

    fn park(&self, lane: Lane) {
        let (parked, queue) = (&self.parked[lane as usize], &self.shared.queues[lane as usize]);
        parked.store(true, Ordering::SeqCst);
        while parked.load(Ordering::SeqCst) && queue.is_idle() && !self.stopping.load(Ordering::SeqCst) {
            thread::park();
        }
        parked.store(false, Ordering::SeqCst);
    }

    fn park_while_held(&self, lane: Lane) {
        let parked = &self.parked[lane as usize];
        parked.store(true, Ordering::SeqCst);
        let held = || self.shared.hold(lane).is_none();
        while parked.load(Ordering::SeqCst) && held() && !self.stopping.load(Ordering::SeqCst) {
            thread::park();
        }
        parked.store(false, Ordering::SeqCst);
    }
}

impl Threads {
    /// Lanes that nobody runs yet.
    pub fn new(run: PieceRunner) -> Self {
        let state = Arc::new(State {
            shared: Shared::new(run),
            threads: Default::default(),
            parked: Default::default(),
            stopping: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            wanted: [const { AtomicU64::new(u64::MAX) }; Lane::ALL.len()],
            gate: Mutex::new(()),
            progress: Condvar::new(),
        });
        Threads { state, workers: Mutex::default() }
    }

    /// Starts the workers of lanes.
    ///
    /// # Panics
    /// If the system gives no threads.
    pub fn begin(&self, lanes: &[Lane]) {
        let workers = lanes.iter().map(|&lane| {
            let state = Arc::clone(&self.state);
            let builder = thread::Builder::new().name(format!("overcommit {lane:?}"));
            builder.spawn(move || state.work(lane)).expect("a thread can be started")
        });
        lock(&self.workers).extend(workers);
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.state.shared
    }

    pub fn submit(&self, lane: Lane, piece: Piece) {
        self.state.shared.queues[lane as usize].push(piece);
        self.state.wake(lane);
    }

    pub fn finish(&self, mark: Mark) {
        self.state.finish(mark);
    }
}

impl State {
    fn wake(&self, lane: Lane) {
        let parked = &self.parked[lane as usize];
        if parked.load(Ordering::SeqCst)
            && parked.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.threads[lane as usize].get()
        {
            thread.unpark();
        }
    }

    /// Runs what leads to a mark, as far as no other thread does, until it is reached or the engine goes.
    fn finish(&self, mark: Mark) {
        let shared = &self.shared;
        // What has to run first: the mark, or a mark that its lane waits for. Each was submitted before the last.
        let mut goal = mark;
        while !shared.reached(mark) && !self.stopping.load(Ordering::SeqCst) {
            if shared.reached(goal) {
                goal = mark;
                continue;
            }
            match self.help(goal) {
                Some(Some(earlier)) => goal = earlier,
                Some(None) => {}
                None => {
                    if !spin(|| shared.reached(goal)) {
                        self.sleep_until(goal);
                    }
                }
            }
        }
    }

    /// Runs the goal's lane up to it. The mark that the lane waits for, if it does; `None` if another thread runs it.
    fn help(&self, goal: Mark) -> Option<Option<Mark>> {
        let shared = &self.shared;
        let holder = shared.hold(goal.lane)?;
        let mut blocked = None;
        while !shared.reached(goal) {
            match holder.run_oldest() {
                PieceOutcome::Ran => self.tell(goal.lane),
                PieceOutcome::Blocked(mark) => {
                    blocked = Some(mark);
                    break;
                }
                PieceOutcome::Empty => break,
            }
        }
        drop(holder);
        // The lane's worker may have stood back for this thread.
        if !shared.queues[goal.lane as usize].is_idle() {
            self.wake(goal.lane);
        }
        Some(blocked)
    }
}

impl Drop for Threads {
    /// Finishes the pieces that run and discards those that wait.
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::SeqCst);
        {
            let _guard = lock(&self.state.gate);
            self.state.progress.notify_all();
        }
        for worker in lock(&self.workers).drain(..) {
            worker.thread().unpark();
            // A worker catches its pieces' panics and has none of its own to report.
            let _ = worker.join();
        }
    }
}
