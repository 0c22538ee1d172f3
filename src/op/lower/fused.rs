use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

use super::space::SpaceOf;
use super::{Calls, KernelCall, KernelName, Request, bits};
use crate::op::{
    Dtype, Layout, MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, MAX_RANK, MAX_SCALARS, MAX_STEPS, Program, Scalar,
    Source, Step, StepKind, Unary,
};

/// Arguments of the kernel that runs programs (`Fused` in `fused.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Fused {
    inputs: [u64; MAX_FUSED_INPUTS],
    outputs: [u64; MAX_FUSED_OUTPUTS],
    scalars: [u64; MAX_SCALARS],
    chunk: u64,
    input_count: u32,
    step_count: u32,
    output_count: u32,
    /// A bit for each input whose elements do not simply follow each other.
    strided: u32,
    made: [u32; MAX_FUSED_OUTPUTS],
    steps: [[u8; 4]; MAX_STEPS],
    count: u64,
    rank: u64,
    sizes: [u64; MAX_RANK],
    strides: [[i64; MAX_RANK]; MAX_FUSED_INPUTS],
}

pub fn fused(request: &Request, program: &Program, scalars: &[u64; MAX_SCALARS], calls: &mut Calls) {
    let inputs = request.inputs;
    let layouts: SmallVec<[&Layout; MAX_FUSED_INPUTS]> =
        inputs.iter().map(|input| &input.view.layout).collect();
    let dtype = inputs[0].view.dtype;
    let SpaceOf { count, rank, sizes, strides } = SpaceOf::of(&layouts);
    let mut args = Fused {
        chunk: (request.chunk / cost(program)).max(1) as u64,
        scalars: scalars.map(|scalar| bits(dtype, Scalar::Float(scalar))),
        input_count: inputs.len() as u32,
        step_count: program.steps().len() as u32,
        output_count: program.outputs().len() as u32,
        count,
        rank,
        sizes,
        strides,
        ..Fused::zeroed()
    };
    for (n, input) in inputs.iter().enumerate() {
        args.inputs[n] = input.first();
        args.strided |= u32::from(!input.view.layout.is_contiguous()) << n;
    }
    for (n, (output, &step)) in request.outputs.iter().zip(program.outputs()).enumerate() {
        (args.outputs[n], args.made[n]) = (output.first(), step.into());
    }
    for (place, step) in args.steps.iter_mut().zip(program.steps()) {
        let [a, b] = step.sources.map(place_of);
        *place = [step.kind.code(), a, b, 0];
    }
    KernelCall::push(calls, KernelName::new("fused", "", dtype), count, args.chunk, &args);
}

/// Where the kernel has a value: inputs come first, then scalars, then what steps make.
fn place_of(source: Source) -> u8 {
    match source {
        Source::Input(input) => input,
        Source::Scalar(scalar) => MAX_FUSED_INPUTS as u8 + scalar,
        Source::Step(step) => (MAX_FUSED_INPUTS + MAX_SCALARS) as u8 + step,
    }
}

/// As many times what an addition costs, about.
fn cost(program: &Program) -> usize {
    let cost = |step: &Step| match step.kind {
        StepKind::Binary(_) => 1,
        StepKind::Unary(Unary::Neg | Unary::Abs | Unary::Square | Unary::Relu) => 1,
        StepKind::Unary(_) => 8,
    };
    // What costs more than the arithmetic of a single one is to read and write.
    program.steps().iter().map(cost).sum::<usize>().div_ceil(4)
}

pub fn names(names: &mut Vec<KernelName>) {
    names.extend(Dtype::FLOATS.map(|dtype| KernelName::new("fused", "", dtype)));
}
