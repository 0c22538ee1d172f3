//! Convolutions as products with a column matrix that is laid out a bounded piece at a time.
//!
//! Every size here, the scratch included, is a function of shapes, layouts and the engine's number of workers; the
//! order of every sum is a function of shapes and layouts alone.

mod depthwise;
mod forward;
mod gradient;
mod problem;
mod scatter;
mod source;
mod workspace;

use super::call::Call;
use super::columns::Real;
use crate::engine::{Algorithm, EngineError};
use crate::op::{Dtype, Inputs, Op, View};
use depthwise::DepthwiseGradientPlan;
use forward::ForwardPlan;
use gradient::GradientPlan;
use problem::{Image, Problem, WeightLayout};
use scatter::ScatterPlan;
use source::{Coding, Source};
use workspace::Workspace;

/// How a call will run.
#[derive(Debug)]
enum ConvPlan {
    Forward(ForwardPlan),
    Scatter(ScatterPlan),
    Gradient(GradientPlan),
    DepthwiseGradient(DepthwiseGradientPlan),
}

impl ConvPlan {
    fn new(op: &Op, algorithm: Algorithm, inputs: &[View], workers: usize) -> Option<Self> {
        let Some((decode, image, of_values)) = op.in_two(inputs) else {
            return Self::of_values(op, algorithm, inputs, None, workers);
        };
        Self::of_values(&of_values, algorithm, &[image, inputs[1]], Coding::of(&decode), workers)
    }

    /// Of images as they are, or as they will be once they are decoded by `coding`.
    fn of_values(
        op: &Op,
        algorithm: Algorithm,
        inputs: &[View],
        coding: Option<Coding>,
        workers: usize,
    ) -> Option<Self> {
        let shape = |of: usize| -> [usize; 5] { std::array::from_fn(|axis| inputs[of].shape()[axis]) };
        Some(match *op {
            Op::Conv(conv) => {
                let [filters, _, kernel @ ..] = shape(1);
                let problem = Problem::new(&conv, shape(0), filters, kernel);
                let weights = WeightLayout::new(&inputs[1], &problem);
                ConvPlan::Forward(ForwardPlan::new(problem, &inputs[0], weights, workers))
            }
            Op::ConvBackwardInput { conv, size: [depth, height, width] } => {
                let [filters, channels, kernel @ ..] = shape(0);
                let image = [shape(1)[0], channels * conv.groups, depth, height, width];
                let problem = Problem::new(&conv, image, filters, kernel);
                let weights = WeightLayout::new(&inputs[0], &problem);
                match scatter::as_forward(&problem, weights) {
                    Some((problem, weights)) => {
                        ConvPlan::Forward(ForwardPlan::new(problem, &inputs[1], weights, workers))
                    }
                    None => ConvPlan::Scatter(ScatterPlan::new(problem, &inputs[1], weights, workers)),
                }
            }
            Op::ConvBackwardWeight { conv, kernel } => {
                let problem = Problem::new(&conv, shape(0), shape(1)[1], kernel);
                if problem.is_depthwise() {
                    ConvPlan::DepthwiseGradient(DepthwiseGradientPlan::new(
                        problem, &inputs[1], coding, workers,
                    ))
                } else {
                    let whole_batch = algorithm == WHOLE_BATCH;
                    let plan =
                        GradientPlan::new(problem, [&inputs[0], &inputs[1]], coding, whole_batch, workers);
                    ConvPlan::Gradient(plan)
                }
            }
            _ => return None,
        })
    }

    fn workspace(&self) -> &Workspace {
        match self {
            ConvPlan::Forward(plan) => &plan.workspace,
            ConvPlan::Scatter(plan) => &plan.workspace,
            ConvPlan::Gradient(plan) => &plan.workspace,
            ConvPlan::DepthwiseGradient(plan) => &plan.workspace,
        }
    }

    fn scratch_bytes(&self, dtype: Dtype) -> usize {
        self.workspace().count() * dtype.size_bytes()
    }
}

/// The backward pass of weights as one product over all images: another rounding, a larger workspace.
pub(super) const WHOLE_BATCH: Algorithm = Algorithm(1);

/// Workspace of a convolution in bytes, with so many `workers`.
pub(super) fn scratch_bytes(op: &Op, algorithm: Algorithm, inputs: &[View], workers: usize) -> usize {
    ConvPlan::new(op, algorithm, inputs, workers).map_or(0, |plan| plan.scratch_bytes(inputs[1].dtype))
}

/// Runs a convolution or one of its backward passes with so many `workers`.
///
/// # Errors
/// If the op is no convolution of 32-bit or 64-bit floats, or the scratch is too small.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch).
pub(super) unsafe fn run(call: &Call, workers: usize) -> Result<(), EngineError> {
    let views: Vec<View> = call.inputs.iter().map(|operand| operand.view).collect();
    let dtype = views[1].dtype;
    let plan = ConvPlan::new(&call.op, call.algorithm, &views, workers)
        .ok_or_else(|| call.failure("is no convolution"))?;
    let needed_bytes = plan.scratch_bytes(dtype);
    if call.scratch.bytes < needed_bytes {
        let reason = format!("{} bytes of scratch, {needed_bytes} are needed", call.scratch.bytes);
        return Err(call.failure(&reason));
    }
    match dtype {
        // SAFETY: the caller upholds the spans, and the scratch is as large as the plan asks.
        Dtype::F32 => unsafe { run_plan::<f32>(call, &plan) },
        // SAFETY: as above.
        Dtype::F64 => unsafe { run_plan::<f64>(call, &plan) },
        other => return Err(call.failure(&format!("no convolution of {other}"))),
    }
    Ok(())
}

/// # Safety
/// As for [`run`]; the call's elements are `T`, and its scratch is as large as the plan asks.
unsafe fn run_plan<T: Real>(call: &Call, plan: &ConvPlan) {
    let scratch = call.scratch.address as *mut T;
    let operand = |index: usize| Image::<T>::new(&call.inputs[index]);
    let views: Inputs<View> = call.inputs.iter().map(|operand| operand.view).collect();
    let coding = call.op.in_two(&views).and_then(|(decode, ..)| Coding::of(&decode));
    let source = || match coding {
        None => Source::Plain(operand(0)),
        Some(coding) => {
            let address = |index: usize| call.inputs.get(index).map_or(0, |input| input.span.address);
            Source::Encoded { coding, form: address(0), overflow: address(2) }
        }
    };
    let weights = |index: usize| call.inputs[index].span.address as *mut T;
    let output = call.outputs[0].span.address as *mut T;
    // SAFETY: the caller's.
    unsafe {
        match &plan {
            ConvPlan::Forward(plan) if matches!(call.op, Op::Conv(_)) => {
                let bias = call.inputs.get(2).map(|bias| {
                    let layout = &bias.view.layout;
                    let start = (bias.span.address as *mut T).wrapping_add(layout.offset());
                    (start, layout.strides()[0])
                });
                plan.run(operand(0), weights(1), bias, output, scratch);
            }
            ConvPlan::Forward(plan) => plan.run(operand(1), weights(0), None, output, scratch),
            ConvPlan::Scatter(plan) => plan.run(operand(1), weights(0), output, scratch),
            ConvPlan::Gradient(plan) => plan.run(source(), operand(1), output, scratch),
            ConvPlan::DepthwiseGradient(plan) => plan.run(source(), operand(1), output, scratch),
        }
    }
}

#[cfg(test)]
mod tests;
