//! Products and convolutions of 16-bit floats: computed in 32 bits on copies in the scratch, and rounded once.

use super::call::{Call, Operand};
use super::kernels;
use crate::engine::{Algorithm, EngineError, Span, aligned};
use crate::op::{Dtype, Inputs, Layout, Op, View};

/// Whether a call on these inputs is computed on copies.
pub(super) fn applies(inputs: &[View]) -> bool {
    inputs.iter().any(|view| view.dtype.is_half())
}

/// What the copy of a view holds: dimensions that repeat one element are copied once.
fn distinct(view: &View) -> View {
    let axes = 0..view.shape().rank();
    let repeated = axes.filter(|&axis| view.layout.strides()[axis] == 0 && view.shape()[axis] > 1);
    View { layout: repeated.fold(view.layout, |layout, axis| layout.slice(axis, 0, 1, 1)), ..*view }
}

/// The copy of a view, as the computation reads it.
pub(super) fn widened(view: &View) -> View {
    let copy = Layout::contiguous(*distinct(view).shape());
    View { dtype: Dtype::F32, layout: copy.expand(*view.shape()) }
}

fn copy_bytes(view: &View) -> usize {
    aligned(distinct(view).shape().count() * Dtype::F32.size_bytes())
}

/// Scratch of the copies; that of the computation comes after it.
pub(super) fn scratch_bytes(inputs: &[View], output: &View) -> usize {
    inputs.iter().chain([output]).map(copy_bytes).sum()
}

/// Runs `compute` on widened copies of the call's inputs, and rounds what it makes.
///
/// # Errors
/// Those of `compute`, or that the scratch is too small.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch), for the call here and for the one that `compute` is given.
pub(super) unsafe fn run(
    call: &Call,
    compute: impl FnOnce(&Call) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let views: Inputs<View> = call.inputs.iter().map(|operand| operand.view).collect();
    let output = call.outputs[0];
    let needed_bytes = scratch_bytes(&views, &output.view);
    if call.scratch.bytes < needed_bytes {
        let reason = format!("{} bytes of scratch, {needed_bytes} are needed", call.scratch.bytes);
        return Err(call.failure(&reason));
    }
    let mut begin = 0;
    let mut place = |view: &View| {
        let span = call.scratch.slice(begin, copy_bytes(view));
        begin += span.bytes;
        Operand { span, view: widened(view) }
    };
    let made = place(&output.view);
    let inputs: Inputs<Operand> = views.iter().map(place).collect();
    for (from, to) in call.inputs.iter().zip(&inputs) {
        let view = View::contiguous(Dtype::F32, *distinct(&from.view).shape());
        // SAFETY: the input is readable, and its part of the scratch is as large as what is copied of it.
        unsafe { copy(Operand { view: distinct(&from.view), ..*from }, Operand { view, ..*to }) }?;
    }
    let rest = call.scratch.slice(begin, call.scratch.bytes - begin);
    compute(&Call { inputs, outputs: [made].into_iter().collect(), scratch: rest, ..call.clone() })?;
    // SAFETY: the computation wrote all of its output, and this writes all of the call's.
    unsafe { copy(made, output) }
}

/// # Safety
/// Both operands are as [`Engine::launch`](crate::engine::Engine::launch) asks of those of a copy.
unsafe fn copy(from: Operand, to: Operand) -> Result<(), EngineError> {
    let call = Call {
        op: Op::Copy { dtype: to.view.dtype },
        algorithm: Algorithm::default(),
        inputs: [from].into_iter().collect(),
        outputs: [to].into_iter().collect(),
        scratch: Span::empty(to.span.tier),
    };
    // SAFETY: the caller's.
    unsafe { kernels::run(&call) }
}

#[cfg(test)]
mod tests;
