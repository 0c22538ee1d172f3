//! Numbers of threads. A thread that submits has one while it lives, the smallest that no other has. So the data loaders
//! of one epoch get the numbers, and the request logs, of those of the epoch before.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// For each number, whether a thread has it.
static TAKEN: Mutex<Vec<bool>> = Mutex::new(Vec::new());

/// A number, until its thread ends.
struct Number(usize);

impl Number {
    fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = taken.iter().position(|taken| !taken).unwrap_or(taken.len());
        if number == taken.len() {
            taken.push(true);
        } else {
            taken[number] = true;
        }
        HAS_NUMBER.set(true);
        Number(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = false;
    }
}

thread_local! {
    static HAS_NUMBER: Cell<bool> = const { Cell::new(false) };
    static NUMBER: Number = Number::take();
}

/// This thread's number. A thread that is ending and has given its number back counts as number 0.
pub(super) fn number() -> usize {
    NUMBER.try_with(|number| number.0).unwrap_or(0)
}

/// Whether this thread has a number: one that never submitted has none.
pub(super) fn has_number() -> bool {
    HAS_NUMBER.get()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_live_together_have_different_numbers() {
        let own = number();
        assert_eq!(number(), own, "a thread keeps its number");
        let barrier = Barrier::new(8);
        let numbers = thread::scope(|scope| {
            let meet = || {
                let number = number();
                barrier.wait();
                number
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(meet)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let mut different = [numbers, vec![own]].concat();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 9);
    }

    #[test]
    fn numbers_are_used_again() {
        // Threads of other tests take numbers too, but far fewer.
        let most = (0..500).map(|_| thread::spawn(number).join().unwrap()).max();
        assert!(most.unwrap() < 400, "{most:?}");
    }
}
