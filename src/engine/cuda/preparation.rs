//! What was made ready for launches before they are submitted under a lock.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::{PoisonError, RwLock};

use crate::op::{Dtype, Inputs, Op, View};

/// Kinds of op, and the element types that decide which kernels they take, as far as that can be told quickly.
type Kind = (Discriminant<Op>, [Option<Dtype>; 2]);

/// The kinds that were seen.
#[derive(Debug, Default)]
pub(super) struct Preparation(RwLock<HashSet<Kind>>);

impl Preparation {
    /// Makes ready what an op takes, if none of its kind has come yet.
    pub fn once(&self, op: &Op, inputs: &mut dyn Iterator<Item = &View>, make_ready: impl FnOnce(&[View])) {
        let (first, second) = (inputs.next(), inputs.next());
        let second_dtype = match *op {
            Op::Copy { dtype } => Some(dtype),
            _ => second.map(|view| view.dtype),
        };
        let kind = (discriminant(op), [first.map(|view| view.dtype), second_dtype]);
        if self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&kind) {
            return;
        }
        let views: Inputs<View> = first.into_iter().chain(second).chain(inputs).copied().collect();
        // An empty tensor takes no kernel.
        if views.iter().all(|view| view.shape().count() > 0) {
            make_ready(&views);
            self.0.write().unwrap_or_else(PoisonError::into_inner).insert(kind);
        }
    }
}
