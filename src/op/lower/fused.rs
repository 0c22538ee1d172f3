use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

use super::reduce::{self, Reduction};
use super::space::{Dim, SpaceOf};
use super::{Calls, KernelCall, KernelName, Placed, Request, bits};
use crate::op::{
    Dtype, Ending, Layout, MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, MAX_RANK, MAX_SCALARS, MAX_STEPS, Program,
    Reduce, Scalar, Shape, Source, Step, StepKind, Unary, View,
};

const OPERANDS: usize = MAX_FUSED_INPUTS + MAX_FUSED_OUTPUTS;

/// The kind of kernel that reduces rows on its way.
pub(super) const ROWS: &str = "rows";

/// Arguments of the kernel that runs programs (`Fused` in `fused.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Fused {
    pub(super) inputs: [u64; MAX_FUSED_INPUTS],
    pub(super) outputs: [u64; MAX_FUSED_OUTPUTS],
    pub(super) scalars: [u64; MAX_SCALARS],
    pub(super) chunk: u64,
    pub(super) input_count: u32,
    pub(super) step_count: u32,
    pub(super) output_count: u32,
    /// A bit for each input whose elements do not simply follow each other.
    pub(super) strided: u32,
    pub(super) scattered: u32,
    pub(super) reduced: u32,
    /// A bit for each input that is a mask.
    pub(super) masks: u32,
    pub(super) made: [u32; MAX_FUSED_OUTPUTS],
    pub(super) steps: [[u8; 4]; MAX_STEPS],
    /// A bit for each step that makes one value for each row.
    pub(super) row_steps: u32,
    /// Elements of a row, if rows are reduced.
    pub(super) row_size: u64,
    pub(super) count: u64,
    pub(super) rank: u64,
    pub(super) sizes: [u64; MAX_RANK],
    pub(super) strides: [[i64; MAX_RANK]; OPERANDS],
}

/// Arguments of the kernel that reduces what they make (`FusedReduce` in `fused.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct FusedReduce {
    program: Fused,
    pub(super) rows: Reduction,
}

pub fn fused(request: &Request, program: &Program, scalars: &[u64; MAX_SCALARS], calls: &mut Calls) {
    let dtype = request.inputs[0].view.dtype;
    if program.has_rows() {
        let mut args = arguments(request, program, scalars);
        args.chunk = (args.chunk / args.row_size).max(1);
        let (name, rows) = (KernelName::new("fused", ROWS, dtype), args.count / args.row_size);
        return KernelCall::push(calls, name, rows, args.chunk, &args);
    }
    let Some(ending) = program.ending() else {
        let args = arguments(request, program, scalars);
        return KernelCall::push(calls, KernelName::new("fused", "", dtype), args.count, args.chunk, &args);
    };
    let made = made(ending, request.inputs[0].view.shape(), dtype);
    let rows = Request {
        inputs: &[Placed { address: 0, view: made }],
        outputs: &request.outputs[program.outputs().len()..],
        ..*request
    };
    reduce::reduce_by(&rows, ending.kind, 1, calls, |calls, kind, to, mut rows| {
        let count = rows.deal(request.per_block(cost(program).max(1)));
        let name = name(kind, dtype, to);
        let args = FusedReduce { program: arguments(request, program, scalars), rows };
        KernelCall::push(calls, name, count, rows.chunk(), &args);
    });
}

/// What a program ends in, as if it were in memory: a reduction of the second of three dimensions.
fn made(ending: &Ending, shape: &Shape, dtype: Dtype) -> View {
    View::contiguous(dtype, ending.sizes(shape))
}

pub fn scratch_bytes(program: &Program, inputs: &[View], outputs: &[View]) -> usize {
    let Some((ending, out)) = program.ending().zip(outputs.last()) else { return 0 };
    reduce::scratch_bytes(ending.kind, &made(ending, inputs[0].shape(), inputs[0].dtype), 1, out)
}

fn arguments(request: &Request, program: &Program, scalars: &[u64; MAX_SCALARS]) -> Fused {
    let inputs = request.inputs;
    let ordered = |layout: &Layout| program.ending().map_or(*layout, |ending| ending.ordered(layout));
    let layouts: SmallVec<[Layout; MAX_FUSED_INPUTS]> =
        inputs.iter().map(|input| ordered(&input.view.layout)).collect();
    let dtype = inputs[0].view.dtype;
    let made = ordered(&Layout::contiguous(*inputs[0].view.shape()));
    // Outputs that simply follow have no steps, which fit any others. Draws go by the places of outputs.
    let has_places = !program.outputs().is_empty() || program.draws();
    let is_scattered = has_places && !made.is_contiguous();
    let SpaceOf { count, rank, sizes, strides } = SpaceOf::new((0..made.shape().rank()).map(|axis| {
        let mut steps = [0; OPERANDS];
        for (step, layout) in steps.iter_mut().zip(&layouts) {
            *step = layout.strides()[axis];
        }
        if is_scattered {
            steps[MAX_FUSED_INPUTS..].fill(made.strides()[axis]);
        }
        Dim { size: made.shape()[axis], steps }
    }));
    let mut args = Fused {
        chunk: request.items_per_block(cost(program)),
        scalars: std::array::from_fn(|n| match program.is_word(n) {
            true => scalars[n],
            false => bits(dtype, Scalar::Float(scalars[n])),
        }),
        input_count: inputs.len() as u32,
        step_count: program.steps().len() as u32,
        output_count: program.outputs().len() as u32,
        scattered: is_scattered.into(),
        reduced: place_of(program.ending().map_or(Source::Step(0), |ending| ending.source)).into(),
        count,
        rank,
        sizes,
        strides,
        ..Fused::zeroed()
    };
    if program.has_rows() {
        args.row_size = inputs[0].view.shape().dims().last().map_or(1, |&size| size as u64);
    }
    for (n, (input, layout)) in inputs.iter().zip(&layouts).enumerate() {
        args.inputs[n] = input.first();
        args.strided |= u32::from(!layout.is_contiguous()) << n;
        args.masks |= u32::from(program.is_mask(n)) << n;
    }
    for (n, (output, &step)) in request.outputs.iter().zip(program.outputs()).enumerate() {
        (args.outputs[n], args.made[n]) = (output.first(), step.into());
    }
    for (place, step) in args.steps.iter_mut().zip(program.steps()) {
        let [a, b, c] = step.sources.map(place_of);
        *place = [step.kind.code(), a, b, c];
    }
    for (n, step) in program.steps().iter().enumerate() {
        args.row_steps |= u32::from(step.is_row) << n;
    }
    args
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
        StepKind::Binary(_) | StepKind::MaskFill | StepKind::Row(_) => 1,
        StepKind::Unary(Unary::Neg | Unary::Abs | Unary::Square | Unary::Cube | Unary::Relu) => 1,
        StepKind::Unary(_) | StepKind::Draw => 8,
    };
    // What costs more than the arithmetic of a single one is to read and write.
    program.steps().iter().map(cost).sum::<usize>().div_ceil(4)
}

/// The kernel that reduces what a program makes, to elements of a type.
fn name(kind: Reduce, dtype: Dtype, to: Dtype) -> KernelName {
    let name = KernelName::new("fused", kind.name(), dtype);
    if dtype == to { name } else { name.with(to) }
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in Dtype::FLOATS {
        names.extend(["", ROWS].map(|kind| KernelName::new("fused", kind, dtype)));
        names.extend([Reduce::Sum, Reduce::Mean, Reduce::Max].map(|kind| name(kind, dtype, dtype)));
        if dtype.is_half() {
            names.extend([Reduce::Sum, Reduce::Max].map(|kind| name(kind, dtype, Dtype::F32)));
        }
    }
}

#[cfg(test)]
pub fn args_size(kind: &str) -> usize {
    if ["", ROWS].contains(&kind) { size_of::<Fused>() } else { size_of::<FusedReduce>() }
}
