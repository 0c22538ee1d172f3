//! The names of the parts of a network that ops belong to. They reach recordings, and change nothing else.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

thread_local! {
    static CURRENT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

static PATHS: LazyLock<Mutex<Paths>> = LazyLock::new(Mutex::default);

/// All paths so far. A program has few, and each is kept for as long as it runs.
#[derive(Default)]
struct Paths {
    paths: Vec<&'static str>,
    ids: HashMap<&'static str, ModuleId>,
}

/// The module that a tensor is a parameter of, as the place of its path among all paths, from one; zero for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleId(pub u32);

impl ModuleId {
    /// The module of a path.
    pub fn of(path: &str) -> Self {
        let Paths { paths, ids } = &mut *all_paths();
        if let Some(&id) = ids.get(path) {
            return id;
        }
        paths.push(String::from(path).leak());
        let id = ModuleId(paths.len() as u32);
        ids.insert(paths[paths.len() - 1], id);
        id
    }

    /// The module's path, unless it is none.
    pub fn path(self) -> Option<&'static str> {
        let place = self.0.checked_sub(1)?;
        Some(all_paths().paths[place as usize])
    }
}

fn all_paths() -> MutexGuard<'static, Paths> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of the module that this thread's ops belong to.
pub(crate) fn current() -> Option<&'static str> {
    CURRENT.get()
}

/// While this exists, ops that this thread submits belong to a module. See [`module`](fn@module) for an example.
#[derive(Debug)]
#[must_use = "the module ends when this is dropped"]
pub struct ModuleScope {
    before: Option<&'static str>,
    of_this_thread: PhantomData<*const ()>,
}

/// Names the part of the network that the ops of this thread belong to, until the result is dropped. Names in names make a path.
///
/// A recording states the path of each op, so that `overcommit explain` says which module holds how much memory. Nothing else
/// depends on it. The ops of a backward pass have no name of their own: they count for the module whose values they read.
#[cfg_attr(
    feature = "autodiff",
    doc = "[`name_modules`](crate::name_modules) names the modules of a model that does not name its own."
)]
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::trace::Event;
/// use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, module, recording};
///
/// let device = OvercommitDevice::Host(0);
/// configure(&device, Config::new().record())?;
/// let x = Tensor::<Overcommit, 2>::ones([8, 8], &device);
/// {
///     let _encoder = module("encoder");
///     let _first = module("0");
///     let _ = x.clone().matmul(x).into_data();
/// }
/// let of = |event: &Event| matches!(event, Event::Op(op) if op.module.as_deref() == Some("encoder.0"));
/// assert!(recording(&device)?.events.iter().any(of));
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn module(name: &str) -> ModuleScope {
    let path = match current() {
        Some(outer) => kept(&format!("{outer}.{name}")),
        None => kept(name),
    };
    within(Some(path))
}

/// Has this thread's ops belong to the module of this path, or to none.
pub(crate) fn within(path: Option<&'static str>) -> ModuleScope {
    ModuleScope { before: CURRENT.replace(path), of_this_thread: PhantomData }
}

impl Drop for ModuleScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

fn kept(path: &str) -> &'static str {
    ModuleId::of(path).path().expect("it was just kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_paths_and_end_with_a_panic() {
        assert_eq!(current(), None);
        let outer = module("outer");
        let first = {
            let _inner = module("inner");
            current().unwrap()
        };
        assert_eq!((first, current()), ("outer.inner", Some("outer")));
        let failed = std::panic::catch_unwind(|| {
            let _inner = module("inner");
            assert!(std::ptr::eq(current().unwrap(), first), "a path is kept once");
            panic!("while the module is entered");
        });
        assert_eq!((failed.is_err(), current()), (true, Some("outer")));
        drop(outer);
        assert_eq!(current(), None);
    }
}
