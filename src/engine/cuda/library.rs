//! What the calls of cuBLASLt and cuDNN have in common: checks, handles, and plans that are made once.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use super::driver::{Called, Context};
use super::lanes::lock;
use crate::messages;
use crate::op::Dtype;

/// Of this many problems, the latest, the plans are kept at least. Asked again, a library says the same.
const MAX_PLANS: usize = 4096;

/// Calls a function of the library that `sys` is, and says if it failed.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        sys::$name($($argument),*).result().map_err(|error| format!("{}: {:?}", stringify!($name), error.0))
    };
}

/// Something of the library's, by what makes it and what takes it back when it is dropped.
macro_rules! owned {
    ($($name:ident($handle:ty), $create:ident($($argument:ident: $kind:ty),*), $destroy:ident;)*) => {$(
        #[derive(Debug)]
        struct $name($handle);

        // SAFETY: the library takes it from any thread, from one at a time; it is behind a lock.
        unsafe impl Send for $name {}

        impl $name {
            fn create($($argument: $kind),*) -> Called<Self> {
                let mut handle = std::ptr::null_mut();
                // SAFETY: the library is open, and a context is current.
                unsafe { call!($create(&mut handle $(, $argument)*)) }?;
                Ok($name(handle))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: it was created, and nobody uses it any more.
                let _ = unsafe { sys::$destroy(self.0) };
            }
        }
    )*};
}

pub(super) use {call, owned};

/// The library's name for a type of floats, of those for 64 and 32 bits, halves, and halves with the exponent of 32.
pub(super) fn of_float<T>(dtype: Dtype, [double, single, half, brain]: [T; 4]) -> T {
    match dtype {
        Dtype::F64 => double,
        Dtype::F16 => half,
        Dtype::BF16 => brain,
        _ => single,
    }
}

/// Values that were made for keys. Between `most` and twice as many are kept, those of the keys that were asked for last.
#[derive(Debug)]
struct Recent<Key, Value> {
    most: usize,
    values: HashMap<Key, Value>,
    /// Those that were asked for before.
    older: HashMap<Key, Value>,
}

impl<Key: Copy + Eq + Hash, Value> Recent<Key, Value> {
    fn new(most: usize) -> Self {
        Recent { most, values: HashMap::new(), older: HashMap::new() }
    }

    /// The value of a key, which is made if there is none. Calls `finish` before values are dropped.
    fn get(&mut self, key: &Key, make: impl FnOnce() -> Value, finish: impl FnOnce()) -> &Value {
        if self.values.len() >= self.most && !self.values.contains_key(key) {
            if !self.older.is_empty() {
                finish();
            }
            self.older = std::mem::take(&mut self.values);
        }
        let older = &mut self.older;
        self.values.entry(*key).or_insert_with(|| older.remove(key).unwrap_or_else(make))
    }
}

/// A library's handle, and what it said of each problem.
#[derive(Debug)]
pub(super) struct Remembered<Handle, Problem, Plan> {
    library: &'static str,
    state: Mutex<State<Handle, Problem, Plan>>,
    context: Arc<Context>,
}

#[derive(Debug)]
struct State<Handle, Problem, Plan> {
    /// Nothing for what the library cannot do.
    plans: Recent<Problem, Option<Plan>>,
    handle: Handle,
}

impl<Handle, Problem: Copy + Debug + Eq + Hash, Plan> Remembered<Handle, Problem, Plan> {
    /// Nothing yet, of a library by name.
    pub fn new(library: &'static str, context: &Arc<Context>, handle: Handle) -> Self {
        let state = State { plans: Recent::new(MAX_PLANS), handle };
        Remembered { library, context: context.clone(), state: Mutex::new(state) }
    }

    /// What comes of a problem's plan, which is made if it is not known; nothing where there is none, which is logged.
    pub fn with<R>(
        &self,
        problem: &Problem,
        make: impl FnOnce(&Handle) -> Called<Plan>,
        use_plan: impl FnOnce(&Handle, &Plan) -> R,
    ) -> Option<R> {
        let State { plans, handle } = &mut *lock(&self.state);
        let make = || {
            let plan = self.context.enter().and_then(|()| make(handle));
            plan.inspect_err(|error| {
                let library = self.library;
                messages::tell(
                    log::Level::Warn,
                    format_args!("{library} does not do {problem:?} as it lies: {error}"),
                );
            })
            .ok()
        };
        // Kernels of a plan may still run.
        let plan = plans.get(problem, make, || drop(self.context.synchronize()));
        plan.as_ref().map(|plan| use_plan(handle, plan))
    }
}

impl<Handle, Problem, Plan> Drop for Remembered<Handle, Problem, Plan> {
    fn drop(&mut self) {
        // Plans and the handle go next, in their context.
        let _ = self.context.enter();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_not_made_again() {
        let (mut recent, mut made, mut finished) = (Recent::new(4), Vec::new(), 0);
        for key in 0..100 {
            for key in [key, 0, key] {
                recent.get(&key, || made.push(key), || finished += 1);
            }
        }
        assert_eq!(made, (0..100).collect::<Vec<_>>());
        assert!(recent.values.len() + recent.older.len() <= 8);
        assert!((20..=40).contains(&finished), "{finished} times before four or eight of 100 are dropped");
        assert_eq!(recent.get(&1, || made.push(1), || ()), &());
        assert_eq!(made.len(), 101, "what was used long ago is forgotten");
    }
}
