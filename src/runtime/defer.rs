//! The gradient of a convolution's input waits until something other than the gradients of the same convolution's
//! weights and bias is asked for, which Burn asks for next. Inputs that only these read are then free before it is
//! made: the convolution's input and its gradient are not in memory together. Products are not deferred, since the
//! gradient of one looks like any other product.

use std::sync::{Arc, Weak};

use super::collect::Run;
use super::ending::keep;
use super::tensor::Handle;
use super::{Runtime, Tensor};
use crate::error::Error;
use crate::op::{Inputs, Op, View};
use crate::pool::{Input, Pool};

/// An op that waits for others that read what it reads.
#[derive(Debug)]
pub struct Deferred {
    op: Op,
    inputs: Inputs<Tensor>,
    made: Weak<Handle>,
    /// Of what it makes.
    pub view: View,
}

/// Whether an op is one that waits.
pub fn waits(op: &Op) -> bool {
    matches!(op, Op::ConvBackwardInput { .. })
}

/// What an op is given, and whether that is the last handle.
pub fn as_inputs(tensors: &[Tensor]) -> Inputs<Input> {
    let input =
        |tensor: &Tensor| Input { id: tensor.id(), view: *tensor.view(), consumed: tensor.handles() == 1 };
    tensors.iter().map(input).collect()
}

impl Deferred {
    /// Whether it is to make the tensor's storage.
    pub fn makes(&self, tensor: &Tensor) -> bool {
        self.made.as_ptr() == Arc::as_ptr(tensor.handle())
    }

    /// Whether an op is another gradient by what it reads.
    pub fn is_after(&self, op: &Op, tensors: &[Tensor]) -> bool {
        let reads =
            |tensor: &Tensor| self.inputs.iter().any(|input| Arc::ptr_eq(input.handle(), tensor.handle()));
        matches!(op, Op::ConvBackwardWeight { .. } | Op::Reduce { .. }) && tensors.iter().any(reads)
    }
}

impl Run {
    /// Takes an op in by itself, to be submitted after others; returns what it is to make.
    pub fn defer(&mut self, runtime: &Arc<Runtime>, op: Op, inputs: Inputs<Tensor>, scopes: u32) -> Tensor {
        let views: Inputs<View> = inputs.iter().map(|input| *input.view()).collect();
        let view = op.outputs(&views)[0];
        let made = Tensor::promised(runtime.clone(), view);
        self.begin(None, scopes);
        self.deferred = Some(Deferred { op, inputs, made: Arc::downgrade(made.handle()), view });
        made
    }

    /// Submits what was deferred, if somebody can still ask for it. After an error it still waits.
    pub(super) fn submit_deferred(&mut self, runtime: &Arc<Runtime>, pool: &mut Pool) -> Result<(), Error> {
        self.deferred.take_if(|deferred| deferred.made.strong_count() == 0);
        let Some(deferred) = &self.deferred else { return Ok(()) };
        let inputs = as_inputs(&deferred.inputs);
        let (made, after) = pool.run_or_keep(&deferred.op, &inputs)?;
        if let Some(Deferred { inputs: tensors, made: promised, view, .. }) = self.deferred.take() {
            // The pool has what was consumed.
            let consumed = tensors.into_iter().zip(&inputs).filter(|(_, input)| input.consumed);
            for (tensor, _) in consumed {
                tensor.into_input();
            }
            made.into_iter().for_each(|id| drop(keep(&promised, runtime, id, view)));
        }
        let planned = runtime.plan_what_was_learned(pool);
        after.and(planned)
    }
}
