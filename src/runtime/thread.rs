//! Which thread submits. Each has a number while it lives, the smallest that no other has: so the loaders of one epoch go on
//! where those of the one before have ended.

use std::sync::{Mutex, PoisonError};

/// By number, whether a thread has it.
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
        Number(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = false;
    }
}

thread_local! {
    static NUMBER: Number = Number::take();
}

/// This thread's number. One that has given it back, since it ends, counts as the first.
pub(super) fn number() -> usize {
    NUMBER.try_with(|number| number.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_live_together_have_numbers_of_their_own() {
        let own = number();
        assert_eq!(number(), own, "it stays");
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
    fn numbers_come_again() {
        // Other tests' threads take numbers too, but far fewer.
        let most = (0..500).map(|_| thread::spawn(number).join().unwrap()).max();
        assert!(most.unwrap() < 400, "{most:?}");
    }
}
