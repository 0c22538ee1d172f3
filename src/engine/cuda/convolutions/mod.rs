//! Convolutions and their gradients by cuDNN, by graphs of one operation each, whose plans are made once: the calls of its
//! version 7 make one at each call.
//!
//! - Operands are strided where every element has a place of its own, else copied. Where the depth is one, they are
//!   planes.
//! - Only algorithms that cuDNN calls deterministic are used. The default is the first in its order whose workspace is
//!   under a limit that follows from shapes: as much as the operands, so that what the op needs at most doubles, or
//!   three times as much where that is below 1 GiB, since Winograd's tiles and channels padded for tensor cores take
//!   more than the operands do.
//! - `Exactness::Fast` may take other algorithms. cuDNN does not tell what they take, so each counts as a sixteenth
//!   slower than the one before.
//! - For `f32`, engines that use tensor cores are left out, since these read TF32.

pub(super) mod columns;
mod descriptor;
mod graph;
mod library;
mod problem;

use std::path::Path;
use std::sync::Arc;

use super::driver::{Called, Context, Stream};
use super::libraries::{Library, Missing};
use super::scratch::{Copier, Scratch};
use crate::engine::Algorithm;
use crate::engine::call::{Call, Operand};
use crate::op::{Inputs, Op, View};
use library::{Addresses, Cudnn};
use problem::{Convolution, bias_over};

/// Whether an op is one.
pub(super) fn is_convolution(op: &Op) -> bool {
    matches!(op, Op::Conv(_) | Op::ConvBackwardInput { .. } | Op::ConvBackwardWeight { .. })
}

/// Convolutions by the library.
#[derive(Debug)]
pub(super) struct Convolutions(Cudnn);

impl Convolutions {
    /// With the library in that folder, or where it usually is.
    ///
    /// # Errors
    /// Inside, what is missing; else what the library says.
    pub fn new(context: &Arc<Context>, folder: Option<&Path>, tf32: bool) -> Called<Result<Self, Missing>> {
        if let Err(missing) = Library::Cudnn.open(folder) {
            return Ok(Err(missing));
        }
        Cudnn::new(context, tf32).map(|library| Ok(Convolutions(library)))
    }

    /// As the library can do it: strided, or with copies.
    fn find(&self, op: &Op, inputs: &[View], output: &View) -> Option<Convolution> {
        [false, true].into_iter().find_map(|packed| {
            let convolution = Convolution::new(op, inputs, output, packed)?;
            (self.0.ways(&convolution.problem) > 0).then_some(convolution)
        })
    }

    /// Workspace by an algorithm; nothing if the op is not the library's to do.
    pub fn scratch_bytes(
        &self,
        op: &Op,
        algorithm: Algorithm,
        inputs: &[View],
        output: &View,
    ) -> Option<usize> {
        let convolution = self.find(op, inputs, output)?;
        let workspace_bytes = self.0.workspace_bytes(&convolution.problem, algorithm)?;
        Some(convolution.copies_bytes() + workspace_bytes)
    }

    /// Makes the plans of an op.
    pub fn prepare(&self, op: &Op, inputs: &[View]) {
        self.find(op, inputs, &op.outputs(inputs)[0]);
    }

    /// How many of the library's algorithms are faster, by what it expects.
    pub fn rank(&self, op: &Op, algorithm: Algorithm, inputs: &[View], output: &View) -> Option<usize> {
        self.0.rank(&self.find(op, inputs, output)?.problem, algorithm)
    }

    /// The algorithms beside the default.
    pub fn alternatives(&self, op: &Op, inputs: &[View]) -> Vec<Algorithm> {
        let found = self.find(op, inputs, &op.outputs(inputs)[0]);
        found.map_or(Vec::new(), |convolution| self.0.alternatives(&convolution.problem))
    }

    /// Puts a convolution into a stream; false, and nothing is done, if it is not the library's to do.
    ///
    /// # Safety
    /// As for [`Engine::launch`](crate::engine::Engine::launch).
    pub unsafe fn run(&self, stream: &Stream, call: &Call, copy: &Copier) -> Called<bool> {
        let views: Inputs<View> = call.inputs.iter().map(|input| input.view).collect();
        let out = call.outputs[0];
        let Some(convolution) = self.find(&call.op, &views, &out.view) else { return Ok(false) };
        let problem = &convolution.problem;
        let Some(workspace_bytes) = self.0.workspace_bytes(problem, call.algorithm) else { return Ok(false) };
        let mut scratch = Scratch::new(call.scratch);
        let first = scratch.place(&call.inputs[0], convolution.copies[0], copy)?;
        let second = scratch.place(&call.inputs[1], convolution.copies[1], copy)?;
        if let Some(bias) = call.inputs.get(2) {
            // The output begins as the bias, so that the sum is rounded once.
            copy(Operand { view: bias_over(&bias.view, &out.view)?, ..*bias }, out)?;
        }
        let at = Addresses {
            inputs: [first, second],
            out: out.placed().first(),
            workspace: scratch.take(workspace_bytes)?,
        };
        // SAFETY: the addresses are those of the op's operands, which the caller vouches for, or of its workspace.
        unsafe { self.0.run(stream, problem, call.algorithm, &at) }?;
        Ok(true)
    }
}
