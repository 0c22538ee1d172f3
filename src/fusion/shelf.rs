//! The results of a thread that are not stored, with what they are computed from ([`again`](super::again)).

use arrayvec::ArrayVec;

use super::tensor::{FusionTensor, Promise};
use crate::op::{Op, StepKind, StepScalars, View};

/// Of how many of the latest results on the shelf one may be what an op asks for.
const MAX_COMPARED: usize = 8;

/// A result that is not stored.
pub struct Shelved<T: FusionTensor> {
    pub op: Op,
    pub kind: StepKind,
    pub scalars: StepScalars,
    /// What it reads: tensors that are stored once the run is submitted, and results on the same shelf.
    pub inputs: ArrayVec<T, 2>,
    pub made: View,
    pub promise: Promise<T>,
    /// How many steps it takes at most, those of the results that it reads included.
    pub steps: usize,
}

/// The results of a thread that are not stored, in the order of the program. There can be hundreds of them, which are looked through for
/// each op: promises lie side by side.
pub struct Shelf<T: FusionTensor>(Vec<(Promise<T>, Box<Shelved<T>>)>);

impl<T: FusionTensor> Default for Shelf<T> {
    fn default() -> Self {
        Shelf(Vec::new())
    }
}

impl<T: FusionTensor> Shelf<T> {
    /// The result that a tensor without a storage stands for.
    pub fn find(&self, tensor: &T) -> Option<&Shelved<T>> {
        let found = || self.0.iter().rev().find(|(promise, _)| promise.is_for(tensor));
        let found = if tensor.is_shelved() && tensor.try_id().is_none() { found() } else { None };
        found.map(|(_, shelved)| &**shelved)
    }

    /// Whether a tensor is on the shelf.
    pub fn has(&self, tensor: &T) -> bool {
        self.find(tensor).is_some()
    }

    /// Whether a step of a run over this whole can compute the tensor again.
    pub fn has_whole(&self, tensor: &T, whole: &View) -> bool {
        tensor.is_flat(whole) && self.find(tensor).is_some_and(|shelved| shelved.made == *whole)
    }

    /// Whether a tensor is computed from a result that is not stored yet, because of an error.
    pub fn awaits(&self, tensor: &T) -> bool {
        let is_awaited = |read: &T| read.try_id().is_none() && (!self.has(read) || self.awaits(read));
        self.find(tensor).is_some_and(|shelved| shelved.inputs.iter().any(is_awaited))
    }

    /// How many steps these tensors take.
    pub fn steps(&self, tensors: &[T]) -> usize {
        tensors.iter().filter_map(|tensor| self.find(tensor)).map(|shelved| shelved.steps).sum()
    }

    /// The result of an op, if it is on the shelf.
    pub fn result(&self, op: &Op, tensors: &[T]) -> Option<T> {
        let is_same = |(one, two): (&T, &T)| one.is_same_storage(two) && one.view() == two.view();
        let is_result = |(_, shelved): &&(Promise<T>, Box<Shelved<T>>)| {
            shelved.op == *op
                && shelved.inputs.len() == tensors.len()
                && !tensors.is_empty()
                && shelved.inputs.iter().zip(tensors).all(is_same)
        };
        self.0.iter().rev().take(MAX_COMPARED).find(is_result)?.0.tensor()
    }

    /// Forgets what nobody can ask for any more.
    pub fn sweep(&mut self) {
        let mut before = usize::MAX;
        while self.0.len() < before {
            before = self.0.len();
            self.0.retain(|(promise, _)| promise.is_wanted());
        }
    }

    /// Adds a result, the latest.
    pub fn put(&mut self, shelved: Shelved<T>) {
        self.0.push((shelved.promise.clone(), Box::new(shelved)));
    }

    /// Takes a result away.
    pub fn take(&mut self, tensor: &T) -> Option<Box<Shelved<T>>> {
        let at = self.0.iter().position(|(promise, _)| promise.is_for(tensor))?;
        Some(self.0.remove(at).1)
    }
}
