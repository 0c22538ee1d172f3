//! A launch as kernels see it: each view beside the memory under it.

use crate::engine::{Algorithm, Launch, Span};
use crate::op::{Inputs, Op, PerOutput, View};

/// An op with everything a kernel needs.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub op: Op,
    pub algorithm: Algorithm,
    pub inputs: Inputs<Operand>,
    pub outputs: PerOutput<Operand>,
    pub scratch: Span,
}

/// A view and the span its storage occupies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub span: Span,
    pub view: View,
}

impl From<&Launch> for Call {
    fn from(launch: &Launch) -> Self {
        let operand = |(&span, &view): (&Span, &View)| Operand { span, view };
        let instruction = &launch.instruction;
        Call {
            op: instruction.op,
            algorithm: instruction.algorithm,
            inputs: launch.inputs.iter().zip(instruction.views.iter()).map(operand).collect(),
            outputs: launch.outputs.iter().zip(&instruction.outputs).map(operand).collect(),
            scratch: launch.scratch,
        }
    }
}
