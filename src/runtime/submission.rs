//! The way of an op from the call to the pool.

use std::sync::Arc;

use smallvec::SmallVec;

use super::device::{Front, Runtime, Tensor};
use super::workers;
use crate::error::Error;
use crate::fusion::{FusionTarget, FusionTensor};
use crate::op::{Inputs, MAX_INPUTS, Misfit, Op, PerOutput, View};
use crate::pool::Input;

impl Runtime {
    /// Submits an op, or has it wait for others to be fused with.
    pub(super) fn submit(
        self: &Arc<Self>,
        op: &Op,
        mut tensors: Inputs<Tensor>,
    ) -> Result<PerOutput<Tensor>, Error> {
        self.check(op, &tensors)?;
        workers::note(self.device);
        // Outside the lock, because this may wait for the device or compile kernels.
        self.pace.keep(&*self.engine).map_err(|error| self.engine_error(error))?;
        if self.prepares {
            self.prepare(op, &tensors);
        }
        let mut front = self.lock()?;
        let Front { pool, runs } = &mut *front;
        let mut target = FusionTarget { maker: self, pool };
        if let Some(promised) = runs.fuse(&mut target, op, &mut tensors)? {
            return Ok([promised].into_iter().collect());
        }
        runs.make_way(&mut target, op, &tensors)?;
        let inputs: Inputs<Input> = tensors.into_iter().map(Tensor::into_input).collect();
        let outputs = pool.run(op, &inputs)?;
        if let Err(error) = self.plan_known_iteration(pool) {
            outputs.iter().for_each(|&(id, _)| pool.release(id));
            return Err(error);
        }
        drop(front);
        Ok(outputs.into_iter().map(|(id, view)| Tensor::new(self.clone(), id, view)).collect())
    }

    /// The one place where the inputs of a program's op are checked, whichever way it goes from here.
    fn check(&self, op: &Op, tensors: &[Tensor]) -> Result<(), Error> {
        let views: SmallVec<[&View; MAX_INPUTS]> = tensors.iter().map(Tensor::view).collect();
        op.check(&views).map_err(|misfit| {
            let shapes = || views.iter().map(|view| *view.shape()).collect();
            match misfit {
                Misfit::Dtypes => {
                    Error::Dtypes { op: op.name(), dtypes: views.iter().map(|view| view.dtype).collect() }
                }
                Misfit::Shapes(expected) => Error::Shapes { op: op.name(), shapes: shapes(), expected },
                Misfit::TooLarge => Error::TooLarge { op: op.name(), shapes: shapes() },
            }
        })
    }

    /// Lets the engine prepare for an op.
    fn prepare(&self, op: &Op, tensors: &[Tensor]) {
        self.engine.prepare(op, &mut tensors.iter().map(Tensor::view));
    }
}
