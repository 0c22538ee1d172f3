use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::matmul::{Matrix, PARALLEL_WORK};
use super::super::spread::spread;

/// Scratch shared out, in elements: the same number for each worker, after what they share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workspace {
    shared: usize,
    each: usize,
    workers: usize,
}

/// Elements rounded up to a whole number of [`ALIGN_BYTES`](crate::engine::ALIGN_BYTES).
pub(super) fn aligned(elements: usize) -> usize {
    elements.next_multiple_of(64)
}

impl Workspace {
    /// `workers` bounds those that are used; `tasks` that need `work` multiply-adds together may want fewer.
    pub fn new(shared: usize, each: usize, tasks: usize, work: usize, workers: usize) -> Self {
        let wanted = if work < PARALLEL_WORK { 1 } else { tasks.max(1) };
        Workspace { shared: aligned(shared), each: aligned(each), workers: wanted.min(workers.max(1)) }
    }

    /// Elements of the whole.
    pub fn count(&self) -> usize {
        self.shared + self.each * self.workers
    }

    /// Runs `body(task, its worker's elements)` for every task, on as many threads as there are workers.
    pub fn run<T: Send + Sync>(&self, scratch: *mut T, tasks: usize, body: impl Fn(usize, *mut T) + Sync) {
        let scratch = Matrix { start: scratch, row: 0, column: 0 };
        let own = |worker: usize| scratch.offset((self.shared + worker * self.each) as isize).start;
        if self.workers == 1 {
            return (0..tasks).for_each(|task| body(task, own(0)));
        }
        let next = AtomicUsize::new(0);
        spread(self.workers, |worker| {
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    break;
                }
                body(task, own(worker));
            }
        });
    }
}
