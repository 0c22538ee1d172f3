//! Ops of recorded programs: name, sizes and cost, and nothing to compute.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::{Dtype, Outputs, Shape, View, Work};

/// What is known of a recorded op.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// For people.
    pub name: String,
    /// Sizes of what it makes.
    pub output_bytes: Vec<usize>,
    /// Workspace it takes.
    pub scratch_bytes: usize,
    /// What it costs.
    pub work: Work,
    /// Inputs, by place, whose memory an output may take if the op has their last handle.
    pub in_place: Vec<usize>,
    /// Whether it gives the same bits again; otherwise what it makes is only ever moved.
    pub exact: bool,
}

/// [`Facts`] kept for the life of the process, equal ones once: a loop that is replayed adds none.
#[derive(Clone, Copy, Debug)]
pub struct Traced(&'static Facts);

static ALL: LazyLock<Mutex<HashSet<&'static Facts>>> = LazyLock::new(Mutex::default);

impl Traced {
    /// The op of these facts.
    pub fn new(facts: Facts) -> Self {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&facts) {
            return Traced(known);
        }
        let facts: &'static Facts = Box::leak(Box::new(facts));
        all.insert(facts);
        Traced(facts)
    }

    /// What is known of it.
    pub fn facts(self) -> &'static Facts {
        self.0
    }

    /// Bytes without a type or shape.
    pub(super) fn outputs(self) -> Outputs {
        self.0.output_bytes.iter().map(|&bytes| bytes_view(bytes)).collect()
    }
}

/// A view of `bytes` bytes: what recorded ops read and make.
pub fn bytes_view(bytes: usize) -> View {
    View::contiguous(Dtype::U8, Shape::new(&[bytes]))
}

impl PartialEq for Traced {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Traced {}

impl Hash for Traced {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}
