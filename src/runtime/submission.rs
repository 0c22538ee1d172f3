//! The way of an op from the call to the pool.

use std::sync::Arc;

use super::device::{Front, Runtime, Tensor};
use super::workers;
use crate::error::Error;
use crate::fusion::{FusionTarget, FusionTensor};
use crate::op::{Inputs, Op, PerOutput};
use crate::pool::Input;

impl Runtime {
    /// Submits an op, or has it wait for others to be fused with.
    pub(super) fn submit(
        self: &Arc<Self>,
        op: &Op,
        mut tensors: Inputs<Tensor>,
    ) -> Result<PerOutput<Tensor>, Error> {
        workers::note(self.device);
        // Outside the lock, because this may wait for the device or compile kernels.
        self.pace.keep(&*self.engine).map_err(|error| self.engine_error(error))?;
        if self.prepares {
            self.prepare(op, &tensors);
        }
        let mut front = self.lock();
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

    /// Lets the engine prepare for an op.
    fn prepare(&self, op: &Op, tensors: &[Tensor]) {
        self.engine.prepare(op, &mut tensors.iter().map(Tensor::view));
    }
}
