//! Factors of results and of what they are added to.

use std::ffi::c_void;

use crate::op::Dtype;

/// A factor in the type that NVIDIA's libraries want it in: that of the sums.
#[derive(Clone, Copy, Debug)]
pub(super) enum Factor {
    Single(f32),
    Double(f64),
}

impl Factor {
    pub fn new(dtype: Dtype, value: f64) -> Self {
        match dtype {
            Dtype::F64 => Factor::Double(value),
            _ => Factor::Single(value as f32),
        }
    }

    pub fn start(&self) -> *const c_void {
        match self {
            Factor::Single(value) => (&raw const *value).cast(),
            Factor::Double(value) => (&raw const *value).cast(),
        }
    }
}
