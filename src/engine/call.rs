//! A launch as kernels need it: each view together with its memory.

use super::{Algorithm, EngineError, Launch, Span};
use crate::op::lower::Placed;
use crate::op::{Inputs, Op, PerOutput, View};

/// An op with everything a kernel needs.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub op: Op,
    #[cfg_attr(not(feature = "host"), allow(dead_code))]
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

impl Operand {
    /// The operand in the form that lowering takes.
    pub fn placed(&self) -> Placed {
        Placed { address: self.span.address, view: self.view }
    }
}

#[cfg(feature = "host")]
impl Call {
    /// An error of the op.
    pub fn failure(&self, reason: &str) -> EngineError {
        EngineError::Kernel { op: self.op.name(), reason: reason.to_string() }
    }
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

/// The stride of a single dimension that replaces these dimensions in row-major order, if there is one.
pub(super) fn collapse(sizes: &[usize], strides: &[isize]) -> Option<isize> {
    let mut inner: Option<(usize, isize)> = None;
    for (&size, &stride) in sizes.iter().zip(strides).rev().filter(|&(&size, _)| size != 1) {
        match inner {
            None => inner = Some((size, stride)),
            Some((count, step)) if stride == step * count as isize => inner = Some((count * size, step)),
            Some(_) => return None,
        }
    }
    Some(inner.map_or(1, |(_, step)| step))
}

/// The error of a launch of `op` whose kernel reported an index that is out of range.
pub(super) fn out_of_range(op: &Op, inputs: &[View], index: i64) -> EngineError {
    let shape = |input: usize| inputs[input].shape();
    let reason = match *op {
        Op::CtcLoss { .. } | Op::CtcLossBackward { .. } => format!(
            "{index} is no label or target length: there are {} classes, and targets of {} labels",
            shape(0)[2],
            shape(1)[1]
        ),
        Op::Gather { axis }
        | Op::Select { axis }
        | Op::Scatter { axis, .. }
        | Op::SelectUpdate { axis, .. } => {
            format!("index {index} is out of range for {} elements", shape(0)[axis])
        }
        _ => format!("index {index} is out of range"),
    };
    EngineError::Index { op: op.name(), reason }
}
