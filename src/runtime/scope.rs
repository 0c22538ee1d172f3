//! Checkpointed scopes: what a thread's ops make inside is recomputed first, apart from results.

use std::cell::Cell;
use std::marker::PhantomData;

use super::Tensor;
use crate::error::Error;

thread_local! {
    /// How many scopes this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// How many scopes this thread is in.
pub(super) fn depth() -> u32 {
    DEPTH.get()
}

/// What this thread's ops make while this exists is dropped before other storages leave device memory, where a recipe
/// brings it back. Scopes may be nested.
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

/// The tensor is a result of the scope that this thread was in until now: it counts as made outside of it.
///
/// # Errors
/// What makes it waited until now, and failed.
pub fn keep_result(tensor: &Tensor) -> Result<(), Error> {
    tensor.runtime().settled([tensor])?.pool.keep_result(tensor.id(), depth());
    Ok(())
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
