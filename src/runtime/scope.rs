//! Checkpointed scopes: values that a thread makes inside of one are recomputed first, except for its results.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// How many scopes this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// How many scopes this thread is in.
pub(super) fn depth() -> u32 {
    DEPTH.get()
}

/// Storages that this thread's ops make while this exists are dropped before any other storage leaves device memory, if a
/// recipe can rematerialize them. Scopes may be nested.
/// `autodiff::checkpoint` is built on it; see [`keep_result`](super::keep_result) for an example.
#[derive(Debug)]
pub struct Scope(PhantomData<*const ()>);

impl Scope {
    /// Enters a scope.
    pub fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Scope(PhantomData)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn scopes_nest_end_with_a_panic_and_are_of_one_thread() {
        let _outer = Scope::enter();
        let panicked = catch_unwind(|| {
            let _inner = Scope::enter();
            assert_eq!(depth(), 2);
            assert_eq!(std::thread::spawn(depth).join().unwrap(), 0);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert_eq!(depth(), 1);
    }
}
