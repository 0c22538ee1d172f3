//! Spreading the blocks of one piece of work over threads: the caller's and rayon's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};

use crate::engine::lanes::spin;

/// How often the owner spins for the last blocks, which others run, before it sleeps: blocks are short, and to be woken
/// takes as long as most of them.
const SPINS: usize = 32;

/// Work that threads take blocks of.
struct Job {
    /// Alive until every block is done; not touched after that.
    work: *const (dyn Fn(usize) + Sync),
    blocks: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    panicked: AtomicBool,
    owner: Thread,
}

// SAFETY: `work` points to what may be shared between threads.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Runs blocks until all are taken.
    fn help(&self) {
        loop {
            let block = self.next.fetch_add(1, Ordering::Relaxed);
            if block >= self.blocks {
                return;
            }
            // SAFETY: this block is not done, so the owner has not returned.
            let work = unsafe { &*self.work };
            if catch_unwind(AssertUnwindSafe(|| work(block))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            // What the block wrote is visible to the owner once it sees the count.
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.blocks {
                self.owner.unpark();
            }
        }
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.blocks
    }
}

/// Calls `work` once for each of `blocks`. Unlike a parallel iterator, which hands everything to the pool and sleeps, the
/// caller begins at once: where the blocks are short, it is done before another thread would have woken.
///
/// # Panics
/// If `work` does; no block runs on.
pub(super) fn spread(blocks: usize, work: impl Fn(usize) + Sync) {
    let helpers = (rayon::current_num_threads() - 1).min(blocks.saturating_sub(1));
    if helpers == 0 {
        return (0..blocks).for_each(work);
    }
    let work: &(dyn Fn(usize) + Sync) = &work;
    // SAFETY: only the lifetime changes, and `Job` upholds it.
    let work =
        unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(work) };
    let job = Arc::new(Job {
        work,
        blocks,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        panicked: AtomicBool::new(false),
        owner: thread::current(),
    });
    for _ in 0..helpers {
        let job = job.clone();
        rayon::spawn(move || job.help());
    }
    job.help();
    if !(0..SPINS).any(|_| spin(|| job.is_done())) {
        while !job.is_done() {
            thread::park();
        }
    }
    assert!(!job.panicked.load(Ordering::Relaxed), "a block of the work panicked");
}

/// Blocks that many indices are spread in: enough for any number of threads, few enough that taking one costs nothing.
const BLOCKS: usize = 256;

/// Calls `work` for every index, side by side where that pays.
pub(super) fn for_each(count: usize, parallel: bool, work: impl Fn(usize) + Sync) {
    if !parallel {
        return (0..count).for_each(work);
    }
    let share = count.div_ceil(BLOCKS).max(1);
    spread(count.div_ceil(share), |block| {
        (block * share..count.min((block + 1) * share)).for_each(&work);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_runs_once() {
        for blocks in [0, 1, 2, 7, 1000] {
            let runs: Vec<AtomicUsize> = (0..blocks).map(|_| AtomicUsize::new(0)).collect();
            spread(blocks, |block| {
                runs[block].fetch_add(1, Ordering::Relaxed);
            });
            assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1), "{blocks}");
        }
    }

    #[test]
    fn every_index_is_taken_once() {
        for count in [0, 1, BLOCKS, 3 * BLOCKS + 5] {
            let total = AtomicUsize::new(0);
            for_each(count, true, |index| {
                total.fetch_add(index + 1, Ordering::Relaxed);
            });
            assert_eq!(total.into_inner(), count * (count + 1) / 2);
        }
    }

    #[test]
    fn a_panic_waits_for_the_other_blocks() {
        let runs = AtomicUsize::new(0);
        let work = |block| {
            runs.fetch_add(1, Ordering::Relaxed);
            assert!(block != 3);
        };
        assert!(catch_unwind(AssertUnwindSafe(|| spread(8, work))).is_err());
        assert!(runs.load(Ordering::Relaxed) >= 4);
    }

    #[test]
    fn work_may_spread_from_any_thread() {
        let total = AtomicUsize::new(0);
        let add = |block| {
            total.fetch_add(block, Ordering::Relaxed);
        };
        let inner = |_| spread(10, add);
        spread(10, inner);
        rayon::join(|| inner(0), || inner(1));
        assert_eq!(total.load(Ordering::Relaxed), 12 * 45);
    }
}
