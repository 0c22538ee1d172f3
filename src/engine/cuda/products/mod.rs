//! Products of floats by cuBLASLt.
//!
//! - To the library a row-major matrix is the transpose of itself, so it makes the transpose of the product.
//! - It is asked for an algorithm once for each combination of sizes, strides and alignments. The workspace of a
//!   product is what that algorithm takes: at most as much as the operands, and 4 MiB (32 MiB from compute capability 9
//!   on).
//! - Where one right matrix serves all batches, they are one product. Batches whose strides are uneven are several
//!   calls.
//! - A matrix that lies neither by rows nor by columns (flipped, overlapping, with two steps) is copied into workspace,
//!   repeated matrices once.
//! - Parts of a sum are added only in the type that they were added up in, so that halves are rounded once.
//! - A bias whose elements lie side by side is added by the library. Others, and those of doubles, are written first
//!   and added to. No other epilogue is used: a rectifier or GELU after a linear layer is another call of Burn's, whose
//!   gradient reads what the layer made.

mod library;
mod problem;

use std::path::Path;
use std::sync::Arc;

use super::driver::{Called, Context, Stream};
use super::libraries::{Library, Missing};
use super::scratch::{Copier, Scratch};
use crate::engine::call::{Call, Operand};
use crate::op::{Inputs, View};
pub(super) use library::{Addresses, CublasLt};
use problem::Product;
pub(super) use problem::{Bias, Matrix, Problem, alignment};

/// Products by the library.
#[derive(Debug)]
pub(super) struct Products(CublasLt);

impl Products {
    /// With the library in that folder, or where it usually is.
    ///
    /// # Errors
    /// Inside, what is missing; else what the library says.
    pub fn new(
        context: &Arc<Context>,
        folder: Option<&Path>,
        architecture: u32,
        tf32: bool,
    ) -> Called<Result<Self, Missing>> {
        if let Err(missing) = Library::CublasLt.open(folder) {
            return Ok(Err(missing));
        }
        CublasLt::new(context, architecture, tf32).map(|library| Ok(Products(library)))
    }

    /// The library itself.
    pub fn library(&self) -> &CublasLt {
        &self.0
    }

    /// Workspace of a product; nothing if it is not the library's to make.
    pub fn scratch_bytes(&self, inputs: &[View]) -> Option<usize> {
        let product = Product::new(inputs)?;
        let workspace_bytes = self.0.workspace_bytes(&product.problem)?;
        Some(product.copies_bytes() + workspace_bytes)
    }

    /// Puts a product into a stream; false, and nothing is done, if it is not the library's to make.
    ///
    /// # Safety
    /// As for [`Engine::launch`](crate::engine::Engine::launch).
    pub unsafe fn run(&self, stream: &Stream, call: &Call, copy: &Copier) -> Called<bool> {
        let views: Inputs<View> = call.inputs.iter().map(|input| input.view).collect();
        let Some(product) = Product::new(&views) else { return Ok(false) };
        let Some(workspace_bytes) = self.0.workspace_bytes(&product.problem) else { return Ok(false) };
        let mut scratch = Scratch::new(call.scratch);
        let (out, bias) = (call.outputs[0], call.inputs.get(2));
        let left = scratch.place(&call.inputs[0], product.copies[0], copy)?;
        let right = scratch.place(&call.inputs[1], product.copies[1], copy)?;
        let workspace = scratch.take(workspace_bytes)?;
        if let (Some(bias), Bias::InOutput) = (bias, product.problem.bias) {
            let layout = bias.view.layout.expand(*out.view.shape());
            copy(Operand { view: View { layout, ..bias.view }, ..*bias }, out)?;
        }
        for offsets in product.offsets() {
            let at = |first: u64, of: usize| first.wrapping_add_signed(offsets[of] as i64);
            let addresses = Addresses {
                left: at(left, 0),
                right: at(right, 1),
                out: at(out.placed().first(), 2),
                bias: bias.map_or(0, |bias| bias.placed().first()),
                workspace,
            };
            // SAFETY: the addresses are those of the op's operands, which the caller vouches for, or of its workspace.
            unsafe { self.0.multiply(stream, &product.problem, &addresses) }?;
        }
        Ok(true)
    }
}
