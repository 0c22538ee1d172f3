//! The gradient of a convolution's input waits while the program asks for the gradients of the same convolution's
//! weights and bias, which Burn asks for next. Tensors that only these read are then free before it is made, so that
//! the convolution's input and its gradient are not in memory together. Matrix products are not deferred, since the
//! gradient of one looks like any other product.

use super::tensor::{FusionTarget, FusionTensor, Promise, TensorMaker, as_inputs};
use crate::error::Error;
use crate::op::{Inputs, Op, View};

/// A gradient that waits for the other gradients of its convolution.
pub struct DeferredGradient<T: FusionTensor> {
    op: Op,
    inputs: Inputs<T>,
    promise: Promise<T>,
    view: View,
}

/// Whether an op is one that waits.
pub fn is_deferred(op: &Op) -> bool {
    matches!(op, Op::ConvBackwardInput { .. })
}

impl<T: FusionTensor> DeferredGradient<T> {
    /// The gradient that an op makes of these inputs, and the tensor that is promised for it.
    pub fn new(maker: &T::Maker, op: Op, inputs: Inputs<T>) -> (Self, T) {
        let views: Inputs<View> = inputs.iter().map(|input| *input.view()).collect();
        let view = op.outputs(&views)[0];
        let promised = maker.promise(view);
        (DeferredGradient { op, inputs, promise: Promise::of(&promised), view }, promised)
    }

    /// What it makes.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether it makes the tensor's storage.
    pub fn makes(&self, tensor: &T) -> bool {
        self.promise.is_for(tensor)
    }

    /// Whether an op is another gradient of the same convolution, which it waits for: it reads one of the same tensors.
    pub fn waits_for(&self, op: &Op, tensors: &[T]) -> bool {
        let reads = |tensor: &T| self.inputs.iter().any(|input| input.is_same_storage(tensor));
        matches!(op, Op::ConvBackwardWeight { .. } | Op::Reduce { .. }) && tensors.iter().any(reads)
    }

    /// Submits the gradient that waits here, if the program can still ask for it. After an error it still waits.
    pub fn submit(waiting: &mut Option<Self>, target: &mut FusionTarget<'_, T>) -> Result<(), Error> {
        waiting.take_if(|deferred| !deferred.promise.is_wanted());
        let Some(deferred) = waiting else { return Ok(()) };
        let inputs = as_inputs(&deferred.inputs);
        let (made, after) = target.pool.run_or_keep(&deferred.op, &inputs)?;
        if let Some(DeferredGradient { inputs: tensors, promise, view, .. }) = waiting.take() {
            // The pool owns the consumed ones now, so their handles go without a release.
            let consumed = tensors.into_iter().zip(&inputs).filter(|(_, input)| input.consumed);
            for (tensor, _) in consumed {
                tensor.into_input();
            }
            made.into_iter().for_each(|id| drop(promise.keep(target.maker, id, view)));
        }
        let planned = target.maker.after_op(target.pool);
        after.and(planned)
    }
}
